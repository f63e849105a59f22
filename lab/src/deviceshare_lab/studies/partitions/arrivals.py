"""The arrivals of ``lab study partitions``: drawn from a seed, the same for all policies."""

import random
from typing import NamedTuple

from deviceshare_lab.studies.partitions.clusters import Cluster

DISTRIBUTIONS = ("uniform", "skewed-small", "skewed-big", "openb")
WARM_UP, MEASURED = 3.0, 12.0
"""Mean lifetimes that are simulated before arrivals count, and while they count."""


class Arrival(NamedTuple):
    """A pod: when it arrives, how long it runs if it is placed (in mean lifetimes), and its profile's number."""

    at: float
    lifetime: float
    profile: int


def weights(cluster: Cluster, distribution: str) -> list[float]:
    """Return the frequency of each profile.

    ``skewed-small`` and ``skewed-big``: proportional to the rank of the profile among those of its resource, the
    largest or the smallest one first. ``openb``: the requests of the trace, by their share of a card.
    """
    ranks: list[float] = []
    numbers: dict[str, int] = {}
    for profile in cluster.profiles:
        numbers[profile.resource] = numbers.get(profile.resource, 0) + 1
        ranks.append(numbers[profile.resource])
    if distribution == "openb":
        found = list(cluster.openb)
    elif distribution == "skewed-big":
        found = ranks
    elif distribution == "skewed-small":
        found = [numbers[each.resource] + 1 - rank for each, rank in zip(cluster.profiles, ranks, strict=True)]
    else:
        found = [1.0] * len(ranks)
    return [each / sum(found) for each in found]


def draw(cluster: Cluster, distribution: str, load: float, seed: int) -> list[Arrival]:
    """Return arrivals that request ``load`` of the memory of all cards on average, if all of them were placed.

    Interarrival times and lifetimes are exponential and independent of the profile; the mean lifetime is 1.
    """
    chance = random.Random(f"{cluster.name} {distribution} {load} {seed}")  # noqa: S311 - repeatable, not secret
    share = weights(cluster, distribution)
    mean = sum(each * profile.memory for each, profile in zip(share, cluster.profiles, strict=True))
    rate = load * cluster.memory / mean
    numbers = range(len(share))
    found, at = list[Arrival](), chance.expovariate(rate)
    while at < WARM_UP + MEASURED:
        found.append(Arrival(at, chance.expovariate(1.0), chance.choices(numbers, share)[0]))
        at += chance.expovariate(rate)
    return found
