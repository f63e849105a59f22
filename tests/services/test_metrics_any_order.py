"""Streams may be read in any order, and messages of a stream may be compacted: the state is the same."""

import msgspec
from deviceshare.model import WHOLE, Gone, NodeLedger, NodeOutcomes, Outcome
from deviceshare_bus.messages import subjects
from deviceshare_metrics.core import count
from hypothesis import given
from hypothesis import strategies as st
from support.metrics import exposed, read, snapshot_of
from support.metrics_messages import claim, events, explain, explanation, grants, ledger, node, pod, step

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
def test_cards_and_pods_have_the_same_totals(messages):
    """The usage of the cards is the sum over the claims and over the pods that are bound without a claim."""
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
