"""A scenario: what is done to a system, and when. Plain data, so that it can be printed, shortened and run again."""

from collections.abc import Mapping
from typing import NamedTuple

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
    """A history to be played: ``nodes`` with their families, ``replicas`` of each service, and the steps in order."""

    seed: str
    nodes: Mapping[str, str]
    replicas: Mapping[str, int]
    steps: tuple[Step, ...]

    def __str__(self) -> str:
        nodes = ", ".join(f"{name} ({family})" for name, family in self.nodes.items())
        replicas = ", ".join(f"{service}={count}" for service, count in self.replicas.items())
        lines = [f"seed {self.seed}", f"nodes: {nodes}", f"replicas: {replicas}", *map(str, self.steps)]
        return "\n".join(lines)
