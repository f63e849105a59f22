"""How large a history is: most are small, since these are fast and easy to read."""

import random
from typing import NamedTuple

Range = tuple[int, int]
"""At least and at most."""


class Size(NamedTuple):
    """The bounds of a scenario.

    Args:
        nodes: nodes.
        pods: pods and gangs.
        faults: faults.
        episodes: the workload and the faults begin in so many episodes; between them nearly nothing happens.
        episode: seconds of an episode.
        span: seconds in which episodes begin.
        longest: seconds that a fault lasts, at most.
        replicas: the numbers of replicas to draw from, for each service.
    """

    nodes: Range
    pods: Range
    faults: Range
    episodes: Range
    episode: float
    span: float
    longest: float
    replicas: dict[str, tuple[int, ...]]


_FEW = {"inventory": (1, 1, 1, 2), "placement": (1, 1, 2), "binder": (1, 1, 1, 2), "metrics": (1,)}
_MORE = {"inventory": (1, 1, 2), "placement": (1, 2, 3), "binder": (1, 1, 2), "metrics": (1,)}
SIZES = {
    "small": Size((2, 2), (3, 6), (1, 2), (1, 1), 8.0, 8.0, 15.0, _FEW),
    "medium": Size((2, 4), (5, 15), (1, 4), (1, 2), 20.0, 100.0, 30.0, _MORE),
    "full": Size((2, 6), (8, 40), (2, 7), (2, 4), 30.0, 600.0, 30.0, _MORE),
}
"""The sizes by name."""
SHARES = {"small": 50, "medium": 4, "full": 1}
"""How often each size is drawn."""


def draw(chance: random.Random) -> str:
    """Draw the name of a size."""
    (name,) = chance.choices(list(SHARES), list(SHARES.values()))
    return name
