"""Why no pod goes for a group, each node counted once: by its pods, or by what it lacks without those that may go."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from deviceshare.model import Refusal, shown
from deviceshare.preemption.candidates import EvictionCandidate
from deviceshare.preemption.room import Room

STILL_LACK_ROOM = "still lack room without the pods that may be evicted"
NOT_TOGETHER = "hold pods that may not be evicted together"


class ReasonsOfNodes(NamedTuple):
    """What one action says: why no pod of each node goes, and the pods that may go, by node."""

    why: Mapping[str, str]
    able: Mapping[str, Sequence[EvictionCandidate]]


def why_none_goes(room: Room, of_actions: Sequence[ReasonsOfNodes]) -> Counter[str]:
    """Return the reasons with the number of nodes; of several actions the last one counts."""
    why: dict[str, str] = {}
    able: dict[str, Sequence[EvictionCandidate]] = {}
    for reasons in of_actions:
        why.update(reasons.why)
        able.update(reasons.able)
    counts = Counter(why.values())
    lacking = {node for node, reason in why.items() if reason == STILL_LACK_ROOM}
    if lacking:
        gone = [candidate for node in sorted(lacking) for candidate in able.get(node, ())]
        for refusal in room.lacks(gone, lacking):
            counts[_text(refusal)] += refusal.nodes
            counts[STILL_LACK_ROOM] -= refusal.nodes
    return +counts


def _text(refusal: Refusal) -> str:
    """Return what nodes lack: of several nodes that which lacks least."""
    if not refusal.asked:
        return refusal.text
    least = "at least " if refusal.nodes > 1 else ""
    missing = shown(max(0, refusal.asked - refusal.free), refusal.unit)
    if refusal.needed > 1:
        return f"still lack {least}{missing} on one of {refusal.needed} cards"
    if refusal.needed:
        return f"still lack {least}{missing} on one card"
    return f"still lack {least}{missing} of {refusal.resource}"
