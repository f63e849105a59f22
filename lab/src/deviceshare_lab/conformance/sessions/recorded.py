"""Recorded sessions: a cluster as Kubernetes objects, and the decisions of Volcano's scheduler.

There are two kinds of lines. A *session* was run by Volcano's scheduler until nothing changed. A *unit test* is the
input of one of Volcano's own tests and the expected result of one run of its actions.
``tests/data/sessions/README.md`` describes the format.
"""

from typing import Any

import msgspec

Object = dict[str, Any]
"""A Kubernetes object as JSON."""


class Placed(msgspec.Struct, frozen=True, kw_only=True):
    """A pod (``namespace/name``) that a session placed, and the annotations of its Binding."""

    session: int
    pod: str
    node: str
    annotations: dict[str, str] = {}


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a scheduler: placements in the order of decisions, and the PodGroups' final phases."""

    placed: tuple[Placed, ...] = ()
    phases: dict[str, str] = {}
    sessions: int = 1
    """Number of sessions, including the last one, which changed nothing."""
    settled: bool = True


class Cluster(msgspec.Struct, frozen=True, kw_only=True):
    """The objects of one cluster."""

    nodes: tuple[Object, ...] | None = ()
    queues: tuple[Object, ...] | None = ()
    podgroups: tuple[Object, ...] | None = ()
    pods: tuple[Object, ...] | None = ()
    priorityclasses: tuple[Object, ...] | None = ()


class Session(Cluster, frozen=True, kw_only=True):
    """A recorded session; ``sessions``: the maximum number of sessions.

    ``from_unit_test``: the order of placements, their annotations and some phases are unknown.
    """

    id: str
    conf: str
    devices: str = ""
    sessions: int = 1
    volcano: Answer
    from_unit_test: bool = False

    @property
    def kind(self) -> str:
        """The kind of cluster, from the id."""
        return self.id.split("/")[1] if self.id.count("/") else self.id
