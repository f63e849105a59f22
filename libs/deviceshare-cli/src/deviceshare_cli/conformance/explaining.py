"""The deviations that explain a difference: with Volcano's rule in their place the difference disappears."""

from collections.abc import Callable, Sequence
from itertools import combinations

from deviceshare_cli.conformance.deviations import Deviation

Explains = Callable[[Sequence[Deviation]], bool]
"""Whether nothing differs once these deviations are applied, in their order."""
MOST_TOGETHER = 4
"""The maximum number of deviations that explain one difference: more could hide it by chance."""


def explanation(able: Sequence[Deviation], explains: Explains) -> Sequence[Deviation]:
    """Return the smallest set of deviations that explains a difference, () if there is none.

    ``able``: the deviations that apply to the scene.
    """
    for size in range(1, min(len(able), MOST_TOGETHER) + 1):
        for some in combinations(able, size):
            if explains(some):
                return some
    return ()
