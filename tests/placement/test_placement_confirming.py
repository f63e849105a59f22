"""A fact that says no more than the claim of its pod changes what any other fact would change: the pod's node."""

from collections.abc import Callable
from typing import Any

import pytest
from deviceshare.model import ContainerGrant, GroupKey, PodFact, PodGroupFact, PodRequest
from deviceshare.scheduler import facts
from deviceshare_bus.messages.codec import encode
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from support.builders import ask, card, container, node, pod, vgpu
from support.played import Commands, Played


def as_wire(held: tuple[ContainerGrant, ...]) -> tuple[ContainerGrant, ...]:
    """Return grants as inventory reads them of annotations, which name no indices."""
    return tuple(replace(grant, devices=tuple(replace(device, index=-1) for device in grant.devices)) for grant in held)


def made(fact: PodFact) -> PodFact:
    first, *rest = fact.held
    devices = tuple(replace(device, made="other") for device in first.devices)
    return replace(fact, held=(replace(first, devices=devices), *rest))


BOUND: dict[str, Callable[[PodFact], PodFact]] = {
    "as claimed": lambda fact: fact,
    "made": lambda fact: made(fact) if fact.held else fact,
    "elsewhere": lambda fact: replace(fact, node="b" if fact.node == "a" else "a"),
    "resized": lambda fact: replace(fact, ask=ask(container(cpu=3))),
    "labelled": lambda fact: replace(fact, labels=(("team", "x"),)),
    "terminating": lambda fact: replace(fact, terminating=True),
    "ended": lambda fact: replace(fact, ended=True),
    "of another queue": lambda fact: replace(fact, queue="other"),
}
PODS = st.lists(
    st.tuples(
        st.sampled_from([vgpu(1, 40), vgpu(2, 30), vgpu(1), ask(container(cpu=2))]),
        st.sampled_from(["", "", "gang"]),
        st.sampled_from(sorted(BOUND)),
    ),
    min_size=1,
    max_size=6,
)


def state(played: Played) -> list[Any]:
    cluster = played.core.scheduler.cluster
    accounts = cluster.accounts
    entries = {
        uid: (entry.pod, entry.account.fact.name, entry.amounts, entry.held, entry.claimed)
        for uid, entry in accounts._pods.items()
    }
    queues = {
        name: (account.pods, +account.allocated, +account.requested, +account.committed)
        for name, account in accounts._accounts.items()
    }
    pods = {uid: (record.fact, record.waits, record.placed) for uid, record in cluster.pods.items()}
    held = {(where, uid): cluster.allocator.holding(where, uid) for where in ("a", "b") for uid in cluster.pods}
    return [
        entries,
        queues,
        pods,
        held,
        set(cluster.moved or ()),
        set(cluster.candidates),
        cluster.dispatcher.waiting(),
    ]


def play(pods: list[tuple[PodRequest, str, str]], changes: dict[str, Any] | None = None) -> list[Any]:
    played = Played(*(node(name, [card(at, node=name, memory=100) for at in range(2)], cpu=20) for name in "ab"))
    played.put(PodGroupFact(key=GroupKey("ns/gang"), queue="default", phase="Running", min_member=1))
    facts_by_uid: dict[str, tuple[PodFact, str]] = {}
    for at, (what, gang, bound) in enumerate(pods):
        fact = pod(f"p{at}", what, gang=gang)
        facts_by_uid[fact.uid] = fact, bound
        played.put(fact)
    said: list[Any] = []

    def note(out: Commands) -> Commands:
        said.append(list(map(encode, out)))
        return out

    out = note(played.tick(1.0))
    if changes is not None:
        for at, ledger in enumerate(out.ledgers, 1):
            played.ledger(ledger.node, at, *(replace(claim, **changes) for claim in ledger.claims))
        said += map(note, map(played.conflict, out.writes))
    else:
        said += map(note, played.written(out))
    played.core.scheduler.cluster.moved = set()
    for ledger in out.ledgers:
        for claim in ledger.claims:
            fact, bound = facts_by_uid[claim.uid]
            note(played.put(BOUND[bound](replace(fact, node=ledger.node, held=as_wire(claim.grants), signed=True))))
            said.append(state(played))
            # What a device plugin has made may be another one, or none, later.
            note(played.put(replace(fact, node=ledger.node, held=as_wire(claim.grants), revision="2", signed=True)))
            said.append(state(played))
    played.put(pod("late", vgpu(2, 30)))
    note(played.tick(1.0))
    return [*said, state(played)]


# Of this replica, of another one, of an earlier version, which names no resources, and those of nominated pods.
@given(PODS, st.sampled_from([None, {}, {"resources": ()}, {"waits_for": ("uid-other",)}]))
def test_it_changes_what_any_other_fact_would_change(
    pods: list[tuple[PodRequest, str, str]], changes: dict[str, Any] | None
) -> None:
    short = play(pods, changes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(facts, "confirm", lambda *_: False)
        assert play(pods, changes) == short


def test_most_pods_are_bound_as_claimed(monkeypatch: pytest.MonkeyPatch) -> None:
    confirmed: list[bool] = []
    confirm = facts.confirm
    monkeypatch.setattr(facts, "confirm", lambda *what: confirmed.append(confirm(*what)) or confirmed[-1])
    play([(vgpu(1, 40), "", "as claimed"), (ask(container(cpu=2)), "", "as claimed")])
    assert confirmed == [True, False, True, False], "not a second fact of a bound pod"


@pytest.mark.parametrize("pod_first", [False, True])
def test_what_a_bound_pod_holds_is_one_object_with_the_grants_of_its_claim(pod_first: bool) -> None:
    played = Played()
    played.put(waiting := pod("p", vgpu(1, 40)))
    out = played.tick(1.0)
    (claim,) = out.claims
    bound = replace(waiting, node="a", held=as_wire(claim.grants))
    if pod_first:
        played = Played(synced=False)
        played.put(bound)
        played.ledger("a", 1, claim)
    else:
        played.written(out)
        played.put(bound)
    scheduler = played.core.scheduler
    assert scheduler.pods[bound.uid].fact.held is scheduler.ledgers["a"].claims[claim.id].grants
