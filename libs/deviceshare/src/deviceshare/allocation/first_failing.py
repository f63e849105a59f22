"""The first failing check of each node: each node counts once, under the check that kept the pod away from it.

The checks are in kube-scheduler's order: state, taints, affinity, ports, resources of the node, volumes, topology
spread, inter-pod affinity (the default plugins in pkg/scheduler/apis/config/v1/default_plugins.go), then devices.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from deviceshare.allocation.diagnosis import refusal_of
from deviceshare.families import Check, FirstFailing
from deviceshare.model import Refusal
from deviceshare.state import Bools, CardView, Ints

_LASTING = {
    # Of the pod, whatever the nodes.
    "NotEvaluated": True,
    "FamilyDisabled": True,
    "DeviceFamilyFailed": True,
    "VolumeNotUsable": True,
    # Of nodes.
    "NodeNotReady": True,
    "NodePaused": True,
    "NodeUnschedulable": True,
    "TaintNotTolerated": True,
    "NodeAffinityMismatch": True,
    "NodeTypeMismatch": True,
    "HostPortInUse": False,
    "NodeKeptFree": False,
    "TooManyPods": False,
    "ResourceUnknown": True,
    "InsufficientResource": False,
    "ProportionNotKept": False,
    "DiskConflict": False,
    "VolumeInUse": False,
    "VolumeLimitExceeded": False,
    "VolumeNodeConflict": True,
    "NoVolumeToBind": True,
    "VolumeNotFound": True,
    "VolumeZoneConflict": True,
    "TopologyKeyMissing": True,
    "TopologySpreadNotMet": False,
    "PodAffinityNotMet": False,
    "PodAntiAffinityNotMet": False,
    "ExcludedByOtherPods": False,
    "DevicesElsewhere": False,
    "DevicesOutOfScope": True,
    "DeviceAllocationFailed": False,
    "DeviceSearchTooLong": False,
    "DevicePoolIncomplete": True,
    "NoMatchingDevice": True,
    "DeviceTooSmall": True,
    "DeviceTainted": True,
    "DevicesInUse": False,
    "DevicesDoNotFit": False,
    "CardsRegisteredTwice": True,
    "CardNotFound": True,
    "ModeNotFit": False,
    "CardNotHealth": True,
    "CardCordoned": True,
    "CardTypeMismatch": True,
    "CardUuidMismatch": True,
    "CardPodGroupConflict": False,
    "CardExclusiveRuleConflict": False,
    "CardMigGeometryNotFound": False,
    "NodeInsufficientDevice": False,
}
"""The codes of checks, in their order, and whether the check fails whichever pods start and end, as those that
kube-scheduler calls ``UnschedulableAndUnresolvable``. ``ModeNotFit`` may be due to the pods on a card."""
_STAGES = {code: number for number, code in enumerate(_LASTING)}
_CAPACITY = len(_LASTING)
"""The stage of all other checks: the capacity of cards."""


class Models(NamedTuple):
    """The models of the cards of R nodes, as codes of ``names``: ``whole`` int64[R] of those that kubelet allocates."""

    names: Sequence[str]
    whole: Ints
    view: CardView | None

    def free(self, check: Check, first: FirstFailing, rows: Ints) -> "Counter[str]":
        """Return how much of what a check is about the cards of these rows have free, by model."""
        if first.free_cards is not None and self.view is not None:
            unnamed, models, free = "unknown", self.view.type[rows], first.free_cards[rows]
        elif check.resource.endswith("/gpu") and first.free is not None:
            unnamed, models, free = check.resource, self.whole[rows], np.maximum(first.free[rows], 0)
        else:
            return Counter()
        found: Counter[str] = Counter()
        some = free > 0
        of_models = np.bincount(models[some], free[some])  # not np.unique, whose first use imports numpy.ma
        for model in np.flatnonzero(of_models).tolist():
            found[self.names[model] or unnamed] += int(of_models[model])
        return found


def stage(code: str) -> int:
    """Return how far a node got that fails a check with this code; more is nearer to feasible."""
    return _STAGES.get(code, _CAPACITY)


def is_lasting(code: str) -> bool:
    """Return whether a check with this code fails whichever pods start and end."""
    return _LASTING.get(code, False)


def lasts(refusal: Refusal) -> bool:
    """Return whether nodes refuse a pod so whichever pods start and end: also where no card has what it asks for."""
    return is_lasting(refusal.code) or refusal.largest > 0


def stages(checks: Iterable[Check], total: int) -> Ints:
    """Return int64[R]: the stage of each node's first failing check among these checks, -1 where there is none."""
    found = np.full(total, -1, dtype=np.int64)
    for check in checks:
        if check.first is not None:
            found[check.first.nodes] = stage(check.code)
    return found


def only(check: Check, first: Bools) -> Check:
    """Return a check that is the first failing one at most of these nodes (bool[R])."""
    of_nodes = check.first
    return check if of_nodes is None else replace(check, first=replace(of_nodes, nodes=of_nodes.nodes & first))


def first_failing(
    of_nodes: Sequence[Check], of_cards: Sequence[Check], name: Callable[[int], str], total: int, models: Models
) -> tuple[Refusal, ...]:
    """Return the first failing check of each node as refusals, the nodes that passed most checks first.

    Args:
        of_nodes: the failed checks of nodes, in any order.
        of_cards: the failed checks of cards, with their ``first``; at most one of them is a node's first.
        name: returns the name of a node by its row.
        total: the number of nodes.
        models: the models of the cards of the nodes.
    """
    undecided = np.ones(total, dtype=np.bool_)
    found: dict[tuple[str, str, int, int], list[tuple[Check, FirstFailing]]] = {}
    for check in (*sorted(of_nodes, key=lambda check: stage(check.code)), *of_cards):
        first = check.first or _of_node(check)
        nodes = first.nodes & undecided
        undecided &= ~nodes
        if nodes.any():
            same = found.setdefault((check.code, check.text, check.asked, check.needed), [])
            same.append((check, replace(first, nodes=nodes)))
    refusals = [_refusal(each, name, models) for each in found.values()]
    return tuple(sorted(refusals, key=lambda refusal: (-stage(refusal.code), -refusal.nodes, refusal.text)))


def _of_node(check: Check) -> FirstFailing:
    nothing = np.zeros(len(check.nodes), dtype=np.int64)
    return FirstFailing(check.nodes, nothing, nothing, nothing, check.free)


def _refusal(same: Sequence[tuple[Check, FirstFailing]], name: Callable[[int], str], models: Models) -> Refusal:
    """Return checks that differ only in their nodes as one refusal; the closest node has the most cards that pass."""
    check, _ = same[0]
    about_cards = bool(check.needed)
    closest = (-1, -1, 0)
    nodes = cards = excluded = considered = 0
    by_model: Counter[str] = Counter()
    for each, first in same:
        rows = np.flatnonzero(first.nodes)
        free = np.zeros(len(rows), dtype=np.int64) if first.free is None else np.maximum(first.free[rows], 0)
        left = first.left[rows] if about_cards else np.zeros(len(rows), dtype=np.int64)
        best = int(np.lexsort((rows, -free, -left))[0])
        here = (int(left[best]), int(free[best]), -int(rows[best]))
        if here > closest:
            closest, considered = here, int(first.considered[rows[best]])
        nodes += len(rows)
        by_model += models.free(each, first, rows)
        cards += int(each.failed[rows].sum())
        excluded += int((first.on_node - first.considered)[rows].sum())
    left_there, free_there, row = closest
    nearest = name(-row) if check.free is not None or about_cards else ""
    return replace(
        refusal_of(check, nodes=nodes, free=free_there, cards=cards, nearest=nearest),
        free_by_model=tuple(sorted(by_model.items())),
        left=left_there,
        considered=considered if about_cards else 0,
        excluded=excluded if about_cards else 0,
    )
