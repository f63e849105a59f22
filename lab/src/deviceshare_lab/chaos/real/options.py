"""What a run of chaos does."""

from collections.abc import Mapping
from typing import NamedTuple

from deviceshare_cli import replicas
from deviceshare_cli.replicas import SERVICES

PACE = 7.0
"""Default seconds between two faults: 500 faults an hour."""
PATIENCE = 60.0
"""Default time to settle."""


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
    users: bool = True
    """Whether every client of the bus is a user with rights of its own, as in ``up``."""
    preempts: bool = False
    """Whether pods of lower priority go for others."""


def parse_replicas(text: str) -> dict[str, int]:
    """Return the replicas of ``placement=2,binder=2``; 1 for services that are not named. Raises BadParameter."""
    return dict.fromkeys(SERVICES, 1) | replicas.parse_replicas(text)
