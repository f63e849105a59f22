"""Sets of pods of one node that make room for some pods of a group, to be combined with those of other nodes."""

from collections.abc import Sequence
from typing import NamedTuple


class Option(NamedTuple):
    """Pods of one node, and how many more pods of the group fit there without them."""

    weight: int
    """That of their cost."""
    gain: int
    uids: frozenset[str]

    @property
    def ratio(self) -> float:
        """What a pod of the group costs."""
        return self.weight / self.gain


NO_PODS = Option(0, 0, frozenset())


def least_weights(options: Sequence[Sequence[Option]], missing: int) -> list[list[int | None]]:
    """Return for each node, and each number of missing pods, the weight of room for them there and after it, at least.

    None where there is not enough room.
    """
    least: list[list[int | None]] = [[0, *[None] * missing]]
    for of_node in reversed(options):
        after = least[-1]
        here = list(after)
        for number in range(1, missing + 1):
            for weight, gain, *_ in of_node:
                rest = after[max(0, number - gain)]
                before = here[number]
                if rest is not None and (before is None or weight + rest < before):
                    here[number] = weight + rest
        least.append(here)
    return least[::-1]
