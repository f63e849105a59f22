"""What a run of chaos does."""

from collections.abc import Mapping
from typing import NamedTuple

from deviceshare_cli.errors import CommandError

PACE = 7.0
"""Default seconds between two faults: 500 faults an hour."""
PATIENCE = 60.0
"""Default time to settle."""
SERVICES = ("inventory", "placement", "binder", "metrics")
DEFAULT_REPLICAS = {"inventory": 1, "placement": 1, "binder": 1, "metrics": 1}


class Options(NamedTuple):
    """The options of a run; durations in seconds."""

    seed: int
    seconds: float
    """The run ends after so many seconds, or after ``faults`` faults."""
    faults: int | None
    kinds: tuple[str, ...]
    """Names of faults to choose from."""
    pace: float
    """Seconds between two faults, on average."""
    replicas: Mapping[str, int]
    longest: float
    """Faults with a duration, such as pauses, last between a sixth of this and this."""
    patience: float
    """The time in which the system must settle after the faults of a group have ended."""
    nodes: int
    """Nodes of each device family."""


def parse_replicas(text: str) -> dict[str, int]:
    """Return the replicas of ``placement=2,binder=2``; 1 for services that are not named. Raises CommandError."""
    found = dict(DEFAULT_REPLICAS)
    for part in filter(None, text.split(",")):
        service, _, count = part.partition("=")
        if service not in SERVICES or not count.isdecimal() or not 0 < int(count) <= 9:
            raise CommandError(
                f"--replicas {text!r} is not valid: expected SERVICE=COUNT[,…], with {', '.join(SERVICES)}"
            )
        found[service] = int(count)
    return found
