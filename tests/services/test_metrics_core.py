"""What the streams mean together: usage, states, devices, reasons, whatever order they are read in."""

import asyncio

import msgspec
import pytest
from deviceshare.model import (
    WHOLE,
    Card,
    Claim,
    ContainerGrant,
    ContainerRequest,
    DeviceGrant,
    Explanation,
    Gone,
    NodeFact,
    NodeLedger,
    NodeOutcomes,
    Outcome,
    PodFact,
    PodGroupFact,
    PodRequest,
    Problem,
    Synced,
)
from deviceshare_bus import subjects
from deviceshare_bus.core import Now, Tick
from deviceshare_bus.messages import Events, Step, Undecodable, encode
from deviceshare_bus.tracing import trace_id
from deviceshare_metrics.core import MetricsCore, build_snapshot, count, explaining, metrics_core, tallies
from deviceshare_metrics.core.metrics_core import FORGET_INTERVAL, FORGET_PAUSE, RETENTION
from deviceshare_metrics.core.state_store import MOST_STEPS
from deviceshare_metrics.queries import Queries
from hypothesis import given
from hypothesis import strategies as st
from support.metrics import NOW, catch_up, exposed, read, receive, snapshot_of

CARD = Card("GPU-1", 0, 10, 11178, 100, "Tesla-P4", True, "hami-core")
ASK = PodRequest(containers=(ContainerRequest("main", (("cpu", 500), ("volcano.sh/vgpu-number", 1))),))


def node(name="n1", cards=(CARD,), **more):
    return subjects.fact("node", name), NodeFact(name=name, cards=cards, **more)


def pod(name="a", **more):
    uid = f"uid-{name}"
    return subjects.fact("pod", uid), PodFact(uid=uid, namespace="default", name=name, **{"ask": ASK, **more})


def grants(memory=1024, cores=10, card="GPU-1", family="hami-core", container="main"):
    return (ContainerGrant(container, 0, family, (DeviceGrant(card, 0, memory, cores),)),)


def claim(pod="a", claim_id="", **more):
    more = {"grants": grants(), "resources": (("cpu", 500),), **more}
    return Claim(id=claim_id or f"claim-{pod}", uid=f"uid-{pod}", namespace="default", name=pod, **more)


def ledger(*claims, node="n1"):
    return subjects.ledger(node), NodeLedger(node=node, claims=claims)


def outcome(state, pod="a", node="n1", reason=""):
    return subjects.outcome(node), NodeOutcomes(
        node=node, outcomes=(Outcome(f"claim-{pod}", f"uid-{pod}", state, reason),)
    )


def explanation(pod="a", message="0/1 nodes are unavailable: 1 too small.", decision="pending"):
    uid = f"uid-{pod}"
    return subjects.explain(uid), Explanation(
        uid=uid, namespace="default", name=pod, at=5.0, decision=decision, message=message
    )


def events(service, *steps, **more):
    return subjects.event(service), Events(service=service, instance="i", at=1.0, steps=steps, **more)


def step(name, at, pod="a"):
    return Step(f"uid-{pod}", f"default/{pod}", name, at)


def only(items):
    (item,) = items
    return item


def status(core):
    return asyncio.run(Queries(core).status())


def explain(core, namespace, name):
    return explaining.explain(core.store, snapshot_of(core), namespace, name, trace_id)


def test_a_claim_takes_its_card_and_its_resources_before_the_pod_is_bound():
    snapshot = snapshot_of(read(node(), pod(), ledger(claim())))
    card = only(snapshot.devices)
    assert (card.memory_used, card.cores_used, card.slots_used, card.pods) == (1024, 10, 1, ("default/a",))
    assert (only(snapshot.nodes).used, only(snapshot.nodes).pods) == ({"cpu": 500}, 1)
    shown = only(snapshot.pods)
    assert (shown.state, shown.node, shown.devices[0].memory) == ("Claimed", "n1", 1024)


def test_a_bound_pod_with_a_claim_counts_once():
    snapshot = snapshot_of(read(node(), pod(node="n1", held=grants()), ledger(claim()), outcome("bound")))
    assert only(snapshot.devices).memory_used == 1024
    assert (only(snapshot.nodes).pods, only(snapshot.nodes).used) == (1, {"cpu": 500})
    assert (only(snapshot.pods).state, only(snapshot.claims).state) == ("Bound", "bound")


def test_a_pod_that_others_bound_counts_with_what_it_holds_and_asks():
    snapshot = snapshot_of(read(node(), pod(node="n1", held=grants(2048))))
    assert only(snapshot.devices).memory_used == 2048
    # The vGPU is counted on its card, not among the resources of the node, as placement does.
    assert (only(snapshot.nodes).pods, only(snapshot.nodes).used) == (1, {"cpu": 500})


def test_a_whole_card_has_the_size_of_the_nodes_card():
    cards = (Card("0", 0, 1, 8000, 100, mode="gpu-share"),)
    snapshot = snapshot_of(read(node(cards=cards), pod(node="n1", held=grants(WHOLE, 100, "0", "gpu-number"))))
    assert only(snapshot.devices).memory_used == 8000
    assert only(only(snapshot.pods).devices).memory == 8000


def test_a_mig_instance_is_shown_by_its_plugins_name_and_charged_to_its_card():
    cards = (msgspec.structs.replace(CARD, mode="mig"),)
    held = (ContainerGrant("main", 0, "mig", (DeviceGrant("GPU-1", 0, 5120, 14, "0-2"),)),)
    snapshot = snapshot_of(read(node(cards=cards), pod(), ledger(claim(grants=held))))
    assert only(only(snapshot.pods).devices).id == "GPU-1[0-2]"
    assert only(snapshot.devices).memory_used == 5120


def test_an_ended_pod_holds_nothing_but_its_claim_does_until_it_has_left_the_ledger():
    ended = pod(node="n1", ended=True, held=grants())
    assert only(snapshot_of(read(node(), ended)).devices).memory_used == 0
    core = read(node(), ended, ledger(claim()))
    assert only(snapshot_of(core).devices).memory_used == 1024
    assert only(snapshot_of(core).pods).state == "Ended"
    assert only(snapshot_of(read(ledger(), into=core)).devices).memory_used == 0


def test_a_pod_that_is_bound_elsewhere_than_its_claim_counts_on_both_nodes():
    core = read(node(), node("n2"), pod(node="n2", held=grants(512)), ledger(claim()))
    snapshot = snapshot_of(core)
    assert [(card.node, card.memory_used) for card in snapshot.devices] == [("n1", 1024), ("n2", 512)]
    assert (only(snapshot.pods).node, only(snapshot.pods).devices[0].memory) == ("n2", 512)


def test_what_is_deleted_is_gone_from_every_list_and_every_series():
    core = read(node(), pod(node="n1", held=grants()), explanation())
    assert "GPU-1" in exposed(core)
    gone = Gone()
    snapshot = snapshot_of(read((subjects.fact("node", "n1"), gone), (subjects.fact("pod", "uid-a"), gone), into=core))
    assert (snapshot.nodes, snapshot.devices, snapshot.pods) == ((), (), ())
    assert "GPU-1" not in exposed(core)


@pytest.mark.parametrize(
    ("state", "withdraw", "shown", "pod_state"),
    [
        (None, False, "open", "Claimed"),
        (None, True, "withdrawing", "Claimed"),
        ("bound", False, "bound", "Bound"),
        ("refused", False, "refused", "Pending"),
        ("withdrawn", True, "withdrawn", "Pending"),
        ("no such state", False, "open", "Claimed"),
    ],
)
def test_states_of_claims_and_their_pods(state, withdraw, shown, pod_state):
    core = read(node(), pod(), ledger(claim(withdraw=withdraw)))
    if state is not None:
        read(outcome(state, reason="because"), into=core)
    snapshot = snapshot_of(core)
    assert only(snapshot.claims).state == shown
    assert only(snapshot.claims).reason == ("because" if state else "")
    assert only(snapshot.pods).state == pod_state


def test_an_outcome_of_an_older_attempt_says_nothing_about_the_new_one():
    core = read(pod(), ledger(claim(claim_id="second")), outcome("refused"))
    assert only(snapshot_of(core).claims).state == "open"


@pytest.mark.parametrize("turn", [1, -1])
def test_of_several_claims_the_latest_that_was_not_refused_is_where_the_pod_is(turn):
    ledgers = [
        ledger(claim(decided_at=9.0)),
        ledger(claim(claim_id="old", decided_at=1.0), node="n2"),
        ledger(claim(claim_id="new", decided_at=2.0), node="n3"),
    ]
    snapshot = snapshot_of(read(pod(), outcome("refused"), *ledgers[::turn]))
    assert (only(snapshot.pods).state, only(snapshot.pods).node) == ("Claimed", "n3")


def test_why_a_pod_waits():
    problem = Problem("Pod default/c", "limits", "-1", "a number above 0")
    core = read(pod("a"), explanation("a"), pod("b", gates=("x.io/wait",)), pod("c", problems=(problem,)), pod("d"))
    reasons = {shown.name: (shown.state, shown.reason) for shown in snapshot_of(core).pods}
    assert reasons == {
        "a": ("Pending", "0/1 nodes are unavailable: 1 too small."),
        "b": ("Gated", "waits for scheduling gates: x.io/wait"),
        "c": ("Pending", "Pod default/c: limits: '-1' is not valid: expected a number above 0"),
        "d": ("Pending", None),
    }
    read(ledger(claim("a")), into=core)
    assert next(shown.reason for shown in snapshot_of(core).pods if shown.name == "a") is None


def test_status_counts():
    core = read(
        node(problems=(Problem("Node n1", "f", "v", "e"),)), node("n2", ready=False), node("n3", unschedulable=True),
        pod("a"), pod("b"), pod("c", node="n1"), ledger(claim("a"), claim("b", withdraw=True), claim("c")),
        outcome("bound", "c"), (subjects.SYNCED, Synced()),
    )  # fmt: skip
    counts = status(core)
    assert counts.nodes == {"ready": 1, "not_ready": 1, "unschedulable": 1}
    assert counts.pods == {"Pending": 0, "Claimed": 2, "Bound": 1, "Gated": 0, "Ended": 0}
    assert (counts.claims["open"], counts.claims["withdrawing"], counts.claims["bound"]) == (1, 1, 1)
    assert (counts.open_claims, counts.problems, counts.undecodable, counts.synced) == (2, 1, 0, True)


def test_an_explanation_has_the_steps_of_the_pod_in_their_order_and_its_trace():
    uid = "0191d4c6-51a8-7f40-8b1e-5d8f1c1d2e3f"
    steps = [Step(uid, "default/x", name, at) for name, at in (("claimed", 2.0), ("seen", 1.0))]
    core = read(
        events("placement", *steps),
        events("binder", Step(uid, "default/x", "bound", 3.0, "n1", "done")),
        ("cluster.pod." + uid, PodFact(uid=uid, namespace="default", name="x")),
    )
    answer = explain(core, "default", "x")
    assert [(each.service, each.step) for each in answer.steps] == [
        ("placement", "seen"), ("placement", "claimed"), ("binder", "bound"),
    ]  # fmt: skip
    assert (answer.steps[2].node, answer.steps[2].message, answer.explanation) == ("n1", "done", None)
    assert answer.trace_id == uid.replace("-", "")
    assert explain(core, "default", "y") is None
    assert explain(core, "other", "x") is None


def test_a_pod_that_is_gone_can_be_explained_until_it_is_forgotten():
    core = read(pod("a"), explanation("a"), pod("b"), explanation("b"), events("placement", step("seen", 7.0, "c")))
    read((subjects.fact("pod", "uid-a"), Gone()), into=core)
    answer = explain(core, "default", "a")
    assert (answer.pod, answer.explanation.message) == (None, "0/1 nodes are unavailable: 1 too small.")
    assert explain(core, "default", "c").steps[0].time == 7.0

    early, late = Now(1000.0, 6.0 + RETENTION), Now(1100.0, 8.0 + RETENTION)
    core.handle(Tick(), late)
    assert explain(core, "default", "a") is not None, "the pod may stand on a stream that is not read yet"
    assert core.next_due(early) is None
    catch_up(core, early)
    assert explain(core, "default", "a") is None
    assert explain(core, "default", "c") is not None
    core.handle(Tick(), early._replace(monotonic=core.next_due(early)))
    assert core.next_due(early) == early.monotonic + FORGET_PAUSE + FORGET_INTERVAL
    core.handle(Tick(), late._replace(monotonic=early.monotonic + FORGET_INTERVAL))
    assert explain(core, "default", "c") is not None
    core.handle(Tick(), late)
    assert explain(core, "default", "c") is None
    assert explain(core, "default", "b").explanation is not None


def test_of_too_many_pods_that_are_gone_the_oldest_are_forgotten():
    core = MetricsCore(most_gone=2)
    read(pod("alive"), *(events("placement", step("seen", 1.0, name)) for name in ("alive", "a", "b", "c")), into=core)
    catch_up(core, NOW._replace(wall=4.0))
    assert core.store.histories.keys() == {"uid-alive", "uid-b", "uid-c"}
    assert core.next_due(NOW) == NOW.monotonic + FORGET_PAUSE


def test_a_search_for_pods_to_forget_examines_a_part_of_them(monkeypatch):
    monkeypatch.setattr(metrics_core, "FORGET_BATCH", 2)
    names = ("a", "alive", "b", "c")
    core = read(pod("alive"), *(events("placement", step("seen", 1.0, name)) for name in names))
    catch_up(core)
    assert list(core.store.histories) == ["uid-b", "uid-c", "uid-alive"]
    later = NOW._replace(monotonic=NOW.monotonic + FORGET_PAUSE)
    core.handle(Tick(), later)
    assert list(core.store.histories) == ["uid-alive"]
    core.handle(Tick(), later._replace(monotonic=core.next_due(later)))
    assert list(core.store.histories) == ["uid-alive"]
    assert core.next_due(later) == later.monotonic + FORGET_PAUSE + FORGET_INTERVAL


def test_names_of_counters_and_quarantined_subjects_are_bounded(monkeypatch):
    monkeypatch.setattr(tallies, "MOST_SERIES", 2)
    monkeypatch.setattr(metrics_core, "MOST_QUARANTINED", 2)
    core = read(events("placement", counters={"a": 1, "b": 1, "c": 1, "d": 1}), events("placement", counters={"a": 1}))
    assert core.tallies.counters == {("placement", "a"): 2, ("placement", "b"): 1, ("other", "other"): 2}
    bad = [Undecodable("CLUSTER", f"cluster.node.{name}", 7, "error", b"?") for name in "xyz"]
    read(events("binder", undecodable=(*bad, *bad[1:])), into=core)
    assert core.tallies.undecodable == {"CLUSTER": 3}
    assert len(core._quarantined) == 2


def test_a_copy_of_the_store_does_not_change():
    core = read(node(), pod(), events("placement", step("seen", 1.0)))
    copy, histories = core.store.copy(), dict(core.store.histories)
    before = build_snapshot(copy)
    read((subjects.fact("node", "n1"), Gone()), pod("b"), ledger(claim()), explanation(), into=core)
    read(events("placement", step("bound", 2.0)), into=core)
    assert build_snapshot(copy) == before != snapshot_of(core)
    assert copy.histories == histories != core.store.histories


def test_the_last_steps_of_a_pod_are_kept():
    core = read(events("placement", *(step("pending", float(at)) for at in range(MOST_STEPS + 5))))
    steps = explain(read(pod(), into=core), "default", "a").steps
    assert (len(steps), steps[0].time) == (MOST_STEPS, 5.0)


@pytest.mark.parametrize("order", [("placement", "binder"), ("binder", "placement")])
def test_waiting_is_measured_once_whoever_reports_first(order):
    core = MetricsCore()
    reports = {
        "placement": events("placement", step("seen", 1.0), step("decided", 1.1)),
        "binder": events("binder", step("bound", 1.5)),
    }
    read(*(reports[service] for service in order), into=core)
    # A service that starts again reports what it sees again.
    read(events("placement", step("seen", 9.0)), events("binder", step("bound", 9.5)), into=core)
    assert core.tallies.seen_to_bound.sum == pytest.approx(0.5)
    assert core.tallies.seen_to_bound.cumulative()[-1] == ("+Inf", 1.0)


def test_a_message_quarantined_by_every_reader_is_counted_once():
    bad = Undecodable("CLUSTER", "cluster.node.x", 7, "error", b"?")
    core = read(*(events(service, undecodable=(bad,)) for service in ("placement", "binder", "placement")))
    read(events("binder", undecodable=(msgspec.structs.replace(bad, sequence=8),)), into=core)
    assert core.tallies.undecodable == {"CLUSTER": 2}


def test_what_cannot_be_decoded_leaves_the_core_as_it_was():
    core = read(node(), pod())
    before = snapshot_of(core)
    for subject, data in [
        (subjects.fact("node", "n1"), b"\xc1"),
        (subjects.fact("node", "n1"), encode(NodeFact(name="n1"))[:-1]),
        (subjects.fact("pod", "uid-a"), msgspec.msgpack.encode({"kind": "pod", "uid": 7})),
        (subjects.fact("pod", "uid-a"), msgspec.msgpack.encode({"kind": "no such kind"})),
        (subjects.ledger("n1"), b""),
        (subjects.event("binder"), msgspec.msgpack.encode([])),
    ]:
        with pytest.raises(msgspec.MsgspecError):
            receive(core, subject, data)
    assert snapshot_of(core) == before


def test_unknown_fields_and_an_ask_of_another_form_are_tolerated():
    later = msgspec.msgpack.decode(encode(pod(node="n1", held=grants())[1])) | {"v": 9, "mood": ["good"], "ask": [1, 2]}
    core = read(node())
    receive(core, subjects.fact("pod", "uid-a"), msgspec.msgpack.encode(later))
    assert only(snapshot_of(core).devices).memory_used == 1024
    assert only(snapshot_of(core).nodes).used == {}


def test_forged_devices_of_cards_that_do_not_exist_are_nobodys():
    core = read(node(), pod(node="n1", held=grants(card="GPU-forged")))
    assert only(snapshot_of(core).devices).memory_used == 0
    assert "GPU-forged" not in exposed(core)


def test_the_queue_of_a_pod_is_that_of_its_gang():
    gang = (subjects.fact("podgroup", "default/g"), PodGroupFact(key="default/g", queue="research", min_member=2))
    core = read(gang, pod("a", group="default/g", queue="default"), pod("b", queue="own"), pod("c"))
    assert [shown.queue for shown in snapshot_of(core).pods] == ["research", "own", "default"]


PODS, NODES = ("a", "b", "c"), ("n1", "n2")
_memory = st.sampled_from([WHOLE, 0, 1024, 4096])
_pod_facts = st.builds(
    lambda name, node, ended, memory: pod(name, node=node, ended=ended, held=grants(memory) if node else ()),
    st.sampled_from(PODS), st.sampled_from(["", *NODES]), st.booleans(), _memory,
)  # fmt: skip
_gone = st.sampled_from([*(pod(name)[0] for name in PODS), *(node(name)[0] for name in NODES)]).map(
    lambda subject: (subject, Gone())
)
_claims = st.builds(
    lambda name, number, memory, at: claim(name, claim_id=f"{name}-{number}", grants=grants(memory), decided_at=at),
    st.sampled_from(PODS), st.integers(0, 1), _memory, st.sampled_from([1.0, 2.0]),
)  # fmt: skip
_STREAMS = {
    "CLUSTER": st.one_of(_pod_facts, _gone, st.sampled_from(NODES).map(node)),
    "LEDGER": st.builds(
        lambda name, claims: ledger(*{claim.uid: claim for claim in claims}.values(), node=name),
        st.sampled_from(NODES), st.lists(_claims, max_size=3),
    ),
    "OUTCOME": st.builds(
        lambda name, pod, number, state: (
            subjects.outcome(name),
            NodeOutcomes(node=name, outcomes=(Outcome(f"{pod}-{number}-{name}", f"uid-{pod}", state),)),
        ),
        st.sampled_from(NODES), st.sampled_from(PODS), st.integers(0, 1),
        st.sampled_from(["bound", "refused", "withdrawn"]),
    ),
    "EXPLAIN": st.builds(explanation, st.sampled_from(PODS), st.sampled_from(["x", "y"])),
    "EVENT": st.builds(
        lambda service, pod, name: events(service, step(name, 1.0, pod), counters={"tries": 1}),
        st.sampled_from(["placement", "binder"]), st.sampled_from(PODS), st.sampled_from(["seen", "bound", "gone"]),
    ),
}  # fmt: skip


def _with_unique_ids(messages):
    """Claim ids are unique over the nodes, as those of real attempts are."""
    for subject, message in messages:
        if isinstance(message, NodeLedger):
            claims = tuple(msgspec.structs.replace(each, id=f"{each.id}-{message.node}") for each in message.claims)
            message = msgspec.structs.replace(message, claims=claims)
        yield subject, message


def _shown(core):
    series = sorted(line for line in exposed(core).splitlines() if not line.startswith(("#", "process_")))
    explained = [msgspec.json.encode(explain(core, "default", name)) for name in PODS]
    return snapshot_of(core)._replace(shares=(), pod_shares=()), count(core.store), series, explained


@given(st.data())
def test_the_order_in_which_streams_are_read_makes_no_difference(data):
    streams = [list(_with_unique_ids(data.draw(st.lists(each, max_size=6)))) for each in _STREAMS.values()]
    turns = [number for number, stream in enumerate(streams) for _ in stream]
    shown = []
    for order in (turns, data.draw(st.permutations(turns))):
        rest = [iter(stream) for stream in streams]
        shown.append(_shown(read(*(next(rest[turn]) for turn in order))))
    assert shown[0] == shown[1]


@given(st.data())
def test_a_reader_that_starts_late_sees_the_same_as_one_that_saw_everything(data):
    """The bus keeps the last message of every subject, and delivers those in another order than that of the first."""
    kinds = [each for name, each in _STREAMS.items() if name != "EVENT"]
    messages = list(_with_unique_ids(data.draw(st.lists(st.one_of(kinds), max_size=20))))
    kept = data.draw(st.permutations(list(dict(messages).items())))
    assert _shown(read(*kept)) == _shown(read(*messages))


@given(st.lists(st.one_of(_STREAMS["CLUSTER"], _STREAMS["LEDGER"]), max_size=20))
def test_cards_and_pods_tell_the_same_story(messages):
    """What is taken of cards is what claims, and pods that are bound without one, are shown to have."""
    snapshot = snapshot_of(read(*_with_unique_ids(messages)))
    cards = {card.node for card in snapshot.devices}
    claimed = {(each.node, each.uid) for each in snapshot.claims}
    holders = [each for each in snapshot.claims if each.node in cards] + [
        each
        for each in snapshot.pods
        if each.node in cards and each.state == "Bound" and (each.node, each.uid) not in claimed
    ]
    assert sum(card.memory_used for card in snapshot.devices) == sum(d.memory for h in holders for d in h.devices)
    assert sum(card.slots_used for card in snapshot.devices) == sum(len(h.devices) for h in holders)
