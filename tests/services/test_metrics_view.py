"""What the streams mean together: usage, states, devices, reasons, whatever order they are read in."""

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
from deviceshare_bus.messages import Events, Step, Undecodable, encode
from deviceshare_metrics.exposition import expose
from deviceshare_metrics.server import Site
from deviceshare_metrics.snapshot import build_snapshot
from deviceshare_metrics.state_store import MOST_STEPS, StateStore, UnknownSubjectError
from hypothesis import given
from hypothesis import strategies as st

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


def read(*messages, into=None):
    view = into or StateStore()
    for subject, message in messages:
        view.apply(subject, encode(message))
    return view


def only(items):
    (item,) = items
    return item


def site(view):
    return Site(view, connected=lambda: True, ready=lambda: True, quiet=lambda: 0.0)


def test_a_claim_takes_its_card_and_its_resources_before_the_pod_is_bound():
    picture = build_snapshot(read(node(), pod(), ledger(claim())))
    card = only(picture.devices)
    assert (card.memory_used, card.cores_used, card.slots_used, card.pods) == (1024, 10, 1, ("default/a",))
    assert (only(picture.nodes).used, only(picture.nodes).pods) == ({"cpu": 500}, 1)
    shown = only(picture.pods)
    assert (shown.state, shown.node, shown.devices[0].memory) == ("Claimed", "n1", 1024)


def test_a_bound_pod_with_a_claim_counts_once():
    picture = build_snapshot(read(node(), pod(node="n1", held=grants()), ledger(claim()), outcome("bound")))
    assert only(picture.devices).memory_used == 1024
    assert (only(picture.nodes).pods, only(picture.nodes).used) == (1, {"cpu": 500})
    assert (only(picture.pods).state, only(picture.claims).state) == ("Bound", "bound")


def test_a_pod_that_others_bound_counts_with_what_it_holds_and_asks():
    picture = build_snapshot(read(node(), pod(node="n1", held=grants(2048))))
    assert only(picture.devices).memory_used == 2048
    # The vGPU is counted on its card, not among the resources of the node, as placement does.
    assert (only(picture.nodes).pods, only(picture.nodes).used) == (1, {"cpu": 500})


def test_a_whole_card_has_the_size_of_the_nodes_card():
    cards = (Card("0", 0, 1, 8000, 100, mode="gpu-share"),)
    picture = build_snapshot(read(node(cards=cards), pod(node="n1", held=grants(WHOLE, 100, "0", "gpu-number"))))
    assert only(picture.devices).memory_used == 8000
    assert only(only(picture.pods).devices).memory == 8000


def test_a_mig_instance_is_shown_by_its_plugins_name_and_charged_to_its_card():
    cards = (msgspec.structs.replace(CARD, mode="mig"),)
    held = (ContainerGrant("main", 0, "mig", (DeviceGrant("GPU-1", 0, 5120, 14, "0-2"),)),)
    picture = build_snapshot(read(node(cards=cards), pod(), ledger(claim(grants=held))))
    assert only(only(picture.pods).devices).id == "GPU-1[0-2]"
    assert only(picture.devices).memory_used == 5120


def test_an_ended_pod_holds_nothing_but_its_claim_does_until_it_has_left_the_ledger():
    ended = pod(node="n1", ended=True, held=grants())
    assert only(build_snapshot(read(node(), ended)).devices).memory_used == 0
    view = read(node(), ended, ledger(claim()))
    assert only(build_snapshot(view).devices).memory_used == 1024
    assert only(build_snapshot(view).pods).state == "Ended"
    assert only(build_snapshot(read(ledger(), into=view)).devices).memory_used == 0


def test_a_pod_that_is_bound_elsewhere_than_its_claim_counts_on_both_nodes():
    view = read(node(), node("n2"), pod(node="n2", held=grants(512)), ledger(claim()))
    picture = build_snapshot(view)
    assert [(card.node, card.memory_used) for card in picture.devices] == [("n1", 1024), ("n2", 512)]
    assert (only(picture.pods).node, only(picture.pods).devices[0].memory) == ("n2", 512)


def test_what_is_deleted_is_gone_from_every_list_and_every_series():
    view = read(node(), pod(node="n1", held=grants()), explanation())
    assert b"GPU-1" in expose(build_snapshot(view), view.tallies, "")[0]
    gone = Gone()
    picture = build_snapshot(
        read((subjects.fact("node", "n1"), gone), (subjects.fact("pod", "uid-a"), gone), into=view)
    )
    assert (picture.nodes, picture.devices, picture.pods) == ((), (), ())
    assert b"GPU-1" not in expose(picture, view.tallies, "")[0]


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
    view = read(node(), pod(), ledger(claim(withdraw=withdraw)))
    if state is not None:
        read(outcome(state, reason="because"), into=view)
    picture = build_snapshot(view)
    assert only(picture.claims).state == shown
    assert only(picture.claims).reason == ("because" if state else "")
    assert only(picture.pods).state == pod_state


def test_an_outcome_of_an_older_attempt_says_nothing_about_the_new_one():
    view = read(pod(), ledger(claim(claim_id="second")), outcome("refused"))
    assert only(build_snapshot(view).claims).state == "open"


@pytest.mark.parametrize("turn", [1, -1])
def test_of_several_claims_the_latest_that_was_not_refused_is_where_the_pod_is(turn):
    ledgers = [
        ledger(claim(decided_at=9.0)),
        ledger(claim(claim_id="old", decided_at=1.0), node="n2"),
        ledger(claim(claim_id="new", decided_at=2.0), node="n3"),
    ]
    picture = build_snapshot(read(pod(), outcome("refused"), *ledgers[::turn]))
    assert (only(picture.pods).state, only(picture.pods).node) == ("Claimed", "n3")


def test_why_a_pod_waits():
    problem = Problem("Pod default/c", "limits", "-1", "a number above 0")
    view = read(pod("a"), explanation("a"), pod("b", gates=("x.io/wait",)), pod("c", problems=(problem,)), pod("d"))
    reasons = {shown.name: (shown.state, shown.reason) for shown in build_snapshot(view).pods}
    assert reasons == {
        "a": ("Pending", "0/1 nodes are unavailable: 1 too small."),
        "b": ("Gated", "waits for scheduling gates: x.io/wait"),
        "c": ("Pending", "Pod default/c: limits: '-1' is not valid: expected a number above 0"),
        "d": ("Pending", None),
    }
    read(ledger(claim("a")), into=view)
    assert next(shown.reason for shown in build_snapshot(view).pods if shown.name == "a") is None


def test_status_counts():
    view = read(
        node(problems=(Problem("Node n1", "f", "v", "e"),)), node("n2", ready=False), node("n3", unschedulable=True),
        pod("a"), pod("b"), pod("c", node="n1"), ledger(claim("a"), claim("b", withdraw=True), claim("c")),
        outcome("bound", "c"), (subjects.SYNCED, Synced()),
    )  # fmt: skip
    status = site(view).status()
    assert status.nodes == {"ready": 1, "not_ready": 1, "unschedulable": 1}
    assert status.pods == {"Pending": 0, "Claimed": 2, "Bound": 1, "Gated": 0, "Ended": 0}
    assert (status.claims["open"], status.claims["withdrawing"], status.claims["bound"]) == (1, 1, 1)
    assert (status.open_claims, status.problems, status.undecodable, status.synced) == (2, 1, 0, True)


def test_a_pods_steps_are_told_in_their_order_with_its_trace():
    uid = "0191d4c6-51a8-7f40-8b1e-5d8f1c1d2e3f"
    steps = [Step(uid, "default/x", name, at) for name, at in (("claimed", 2.0), ("seen", 1.0))]
    view = read(
        events("placement", *steps),
        events("binder", Step(uid, "default/x", "bound", 3.0, "n1", "done")),
        ("cluster.pod." + uid, PodFact(uid=uid, namespace="default", name="x")),
    )
    answer = site(view).explain("default", "x")
    assert [(told.service, told.step) for told in answer.steps] == [
        ("placement", "seen"), ("placement", "claimed"), ("binder", "bound"),
    ]  # fmt: skip
    assert (answer.steps[2].node, answer.steps[2].message, answer.explanation) == ("n1", "done", None)
    assert answer.trace_id == uid.replace("-", "")
    assert site(view).explain("default", "y") is None
    assert site(view).explain("other", "x") is None


def test_a_pod_that_is_gone_can_be_explained_until_it_is_forgotten():
    view = read(pod("a"), explanation("a"), pod("b"), explanation("b"), events("placement", step("seen", 7.0, "c")))
    read((subjects.fact("pod", "uid-a"), Gone()), into=view)
    answer = site(view).explain("default", "a")
    assert (answer.pod, answer.explanation.message) == (None, "0/1 nodes are unavailable: 1 too small.")
    assert site(view).explain("default", "c").steps[0].time == 7.0

    view.forget(before=6.0, most=10)
    assert site(view).explain("default", "a") is None
    assert site(view).explain("default", "c") is not None
    view.forget(before=6.0, most=0)
    assert site(view).explain("default", "c") is None
    assert site(view).explain("default", "b").explanation is not None


def test_the_last_steps_of_a_pod_are_kept():
    view = read(events("placement", *(step("pending", float(at)) for at in range(MOST_STEPS + 5))))
    steps = site(read(pod(), into=view)).explain("default", "a").steps
    assert (len(steps), steps[0].time) == (MOST_STEPS, 5.0)


@pytest.mark.parametrize("order", [("placement", "binder"), ("binder", "placement")])
def test_waiting_is_measured_once_whoever_reports_first(order):
    view = StateStore()
    told = {
        "placement": events("placement", step("seen", 1.0), step("decided", 1.1)),
        "binder": events("binder", step("bound", 1.5)),
    }
    read(*(told[service] for service in order), into=view)
    # A service that starts again tells what it sees again.
    read(events("placement", step("seen", 9.0)), events("binder", step("bound", 9.5)), into=view)
    assert view.tallies.seen_to_bound.sum == pytest.approx(0.5)
    assert view.tallies.seen_to_bound.cumulative()[-1] == ("+Inf", 1.0)


def test_a_message_put_aside_by_every_reader_is_counted_once():
    bad = Undecodable("CLUSTER", "cluster.node.x", 7, "error", b"?")
    view = read(*(events(service, undecodable=(bad,)) for service in ("placement", "binder", "placement")))
    read(events("binder", undecodable=(msgspec.structs.replace(bad, sequence=8),)), into=view)
    assert view.tallies.undecodable == {"CLUSTER": 2}


def test_what_cannot_be_decoded_leaves_the_view_as_it_was():
    view = read(node(), pod())
    before = build_snapshot(view)
    for subject, data in [
        (subjects.fact("node", "n1"), b"\xc1"),
        (subjects.fact("node", "n1"), encode(NodeFact(name="n1"))[:-1]),
        (subjects.fact("pod", "uid-a"), msgspec.msgpack.encode({"kind": "pod", "uid": 7})),
        (subjects.fact("pod", "uid-a"), msgspec.msgpack.encode({"kind": "no such kind"})),
        (subjects.ledger("n1"), b""),
        (subjects.event("binder"), msgspec.msgpack.encode([])),
    ]:
        with pytest.raises(msgspec.MsgspecError):
            view.apply(subject, data)
    with pytest.raises(UnknownSubjectError):
        view.apply("elsewhere.x", encode(node()[1]))
    assert build_snapshot(view) == before


def test_unknown_fields_and_an_ask_of_another_form_are_tolerated():
    later = msgspec.msgpack.decode(encode(pod(node="n1", held=grants())[1])) | {"v": 9, "mood": ["good"], "ask": [1, 2]}
    view = read(node())
    view.apply(subjects.fact("pod", "uid-a"), msgspec.msgpack.encode(later))
    assert only(build_snapshot(view).devices).memory_used == 1024
    assert only(build_snapshot(view).nodes).used == {}


def test_forged_devices_of_cards_that_do_not_exist_are_nobodys():
    view = read(node(), pod(node="n1", held=grants(card="GPU-forged")))
    assert only(build_snapshot(view).devices).memory_used == 0
    assert b"GPU-forged" not in expose(build_snapshot(view), view.tallies, "")[0]


def test_the_queue_of_a_pod_is_that_of_its_gang():
    gang = (subjects.fact("podgroup", "default/g"), PodGroupFact(key="default/g", queue="research", min_member=2))
    view = read(gang, pod("a", group="default/g", queue="default"), pod("b", queue="own"), pod("c"))
    assert [shown.queue for shown in build_snapshot(view).pods] == ["research", "own", "default"]


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


def _shown(view):
    text, _ = expose(build_snapshot(view), view.tallies, "")
    series = sorted(line for line in text.decode().splitlines() if not line.startswith(("#", "process_")))
    site_ = site(view)
    explained = [msgspec.json.encode(site_.explain("default", name)) for name in PODS]
    return build_snapshot(view)._replace(shares=(), pod_shares=()), site_.status(), series, explained


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
    picture = build_snapshot(read(*_with_unique_ids(messages)))
    cards = {card.node for card in picture.devices}
    claimed = {(each.node, each.uid) for each in picture.claims}
    holders = [each for each in picture.claims if each.node in cards] + [
        each
        for each in picture.pods
        if each.node in cards and each.state == "Bound" and (each.node, each.uid) not in claimed
    ]
    assert sum(card.memory_used for card in picture.devices) == sum(d.memory for h in holders for d in h.devices)
    assert sum(card.slots_used for card in picture.devices) == sum(len(h.devices) for h in holders)
