"""Which deviations explain a difference: given what Volcano reads, nothing differs."""

from collections.abc import Callable, Sequence
from itertools import combinations

from deviceshare_cli.conformance.deviations import Deviation

Explains = Callable[[Sequence[Deviation]], bool]
"""Whether nothing differs once these deviations are applied, in their order."""
MOST_TOGETHER = 4
"""At most so many deviations explain one difference: more might hide it by chance."""


def explanation(able: Sequence[Deviation], explains: Explains) -> Sequence[Deviation]:
    """Return the fewest deviations that explain a difference, () where none do.

    ``able`` are the deviations that apply to the scene. Each of those returned is needed.
    """
    for size in range(1, min(len(able), MOST_TOGETHER) + 1):
        for some in combinations(able, size):
            if explains(some):
                return some
    return ()
