"""A scenario: what is done to a system, and when. Plain data, so that it can be printed, shortened and run again."""

from collections.abc import Mapping
from typing import NamedTuple

from deviceshare_bus.streams.follower import CHECK

Value = str | float | int


class Step(NamedTuple):
    """An action of the workload or a fault at a virtual time in seconds."""

    at: float
    action: str
    arguments: tuple[Value, ...] = ()

    def __str__(self) -> str:
        said = " ".join(f"{value:g}" if isinstance(value, float) else str(value) for value in self.arguments)
        return f"{self.at:9.3f}  {self.action} {said}".rstrip()


class Scenario(NamedTuple):
    """A history to be played.

    Args:
        seed: what everything else that happens is drawn from.
        nodes: the nodes, with their families.
        replicas: the replicas of each service.
        steps: what is done, in order.
        check: seconds between two looks of the services at the state of a stream.
        linger: seconds for which the history goes on after the system has settled.
        preempts: whether pods of lower priority go for others, by the action ``preempt``.
    """

    seed: str
    nodes: Mapping[str, str]
    replicas: Mapping[str, int]
    steps: tuple[Step, ...]
    check: float = CHECK
    linger: float = 0.0
    preempts: bool = False

    def __str__(self) -> str:
        nodes = ", ".join(f"{name} ({family})" for name, family in self.nodes.items())
        replicas = ", ".join(f"{service}={count}" for service, count in self.replicas.items())
        times = f"streams are checked every {self.check:g} s; the history ends {self.linger:g} s after it has settled"
        if self.preempts:
            times += "; pods go for others"
        return "\n".join(
            [f"seed {self.seed}", f"nodes: {nodes}", f"replicas: {replicas}", times, *map(str, self.steps)]
        )
