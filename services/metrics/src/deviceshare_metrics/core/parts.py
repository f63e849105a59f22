"""Parts of the state: of some nodes, and the whole in parts, for readers that need not have all of it at once. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import TypeVar

from deviceshare_bus.messages.subjects import fact, ledger, outcome
from msgspec.structs import replace

from deviceshare_metrics.core.facts import PodSeen
from deviceshare_metrics.core.state_store import StateStore

T = TypeVar("T")
NODES = 250
"""Nodes of one part."""
WAITING = 2500
"""Pods of one part that are on no node."""


def part_of(store: StateStore, names: Iterable[str], more: dict[str, PodSeen]) -> StateStore:
    """Return an unchanging store with these nodes, their claims, outcomes and claimed pods only, and ``more`` pods.

    ``more`` has the pods that are bound to the nodes.
    """
    names = list(names)
    ledgers = some(store.ledgers, map(ledger, names))
    pods = more | some(store.pods, (fact("pod", claim.uid) for each in ledgers.values() for claim in each.claims))
    return replace(
        store,
        nodes=some(store.nodes, (fact("node", name) for name in names)),
        pods=pods,
        others={},
        groups=some(store.groups, (fact("podgroup", pod.group) for pod in pods.values())),
        queues={},
        classes=store.classes.copy(),
        device_classes=store.device_classes.copy(),
        device_slices={},
        device_claims=some(
            store.device_claims,
            (fact("deviceclaim", each.claim) for pod in pods.values() for each in pod.device_claims),
        ),
        ledgers=ledgers,
        nominations=store.nominations.copy(),
        going=store.going.copy(),
        outcomes=some(store.outcomes, map(outcome, names)),
        histories=some(store.histories, (pod.uid for pod in pods.values())),
        configuration_problems={},
        invalid=store.invalid.copy(),
    )


def some(every: Mapping[str, T], keys: Iterable[str]) -> dict[str, T]:
    """Return what there is of some keys."""
    return {key: found for key in keys if (found := every.get(key)) is not None}


def parts(store: StateStore) -> Iterator[StateStore]:
    """Yield stores with some nodes or waiting pods each, and one with what belongs to neither.

    Each node, claim and pod is in one of them, with all that concerns it. Nodes that have the same pod, such as one
    with a claim that was refused, are in one part: pods seldom have several claims.
    """
    bound: defaultdict[str, list[str]] = defaultdict(list)
    for subject, pod in store.pods.items():
        if pod.node:
            bound[pod.node].append(subject)
    place: dict[str, str] = {}
    """By the uid of a pod a node that has it."""
    shared = set[str]()
    for uid, node in _places(store):
        if (other := place.setdefault(uid, node)) != node:
            shared |= {node, other}
    waiting = iter([subject for subject, pod in store.pods.items() if pod.uid not in place])
    alone = iter(sorted({node.name for node in store.nodes.values()}.union(place.values()) - shared))
    del place
    names: Iterable[str] = sorted(shared)
    while names or (names := [*islice(alone, NODES)]):
        here = some(store.pods, (subject for name in names for subject in bound.get(name, ())))
        yield _of_objects(store, names, here)
        names = ()
    while pods := some(store.pods, islice(waiting, WAITING)):
        yield _of_objects(store, (), pods)
    yield replace(store, nodes={}, pods={}, groups={}, ledgers={}, outcomes={})


def _of_objects(store: StateStore, names: Iterable[str], pods: dict[str, PodSeen]) -> StateStore:
    """Return a part without what the last one has."""
    return replace(part_of(store, names, pods), device_classes={}, device_claims={}, nominations={}, going={})


def _places(store: StateStore) -> Iterator[tuple[str, str]]:
    """Yield pods by uid with each node that has a claim of them, or to which they are bound."""
    for on_node in store.ledgers.values():
        for claim in on_node.claims:
            yield claim.uid, on_node.node
    for pod in store.pods.values():
        if pod.node:
            yield pod.uid, pod.node
