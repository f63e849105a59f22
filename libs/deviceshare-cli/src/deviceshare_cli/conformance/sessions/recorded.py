"""Recorded sessions: a cluster as Kubernetes objects, and what Volcano's scheduler did with it.

Two kinds of lines. A *session* was run by Volcano's scheduler until nothing changed. A *unit test* is the input of one
of Volcano's own tests with what that test expects of one run of its actions. The form is described beside the recorded
files, in ``tests/data/sessions/README.md``.
"""

from typing import Any

import msgspec

Object = dict[str, Any]
"""A Kubernetes object as JSON."""


class Form(msgspec.Struct, frozen=True, kw_only=True):
    """Base of the parts of a line."""


class Placed(Form, frozen=True, kw_only=True):
    """A pod (``namespace/name``) that a session placed, and the annotations that were written on its Binding."""

    session: int
    pod: str
    node: str
    annotations: dict[str, str] = {}


class Answer(Form, frozen=True, kw_only=True):
    """What a scheduler did: placements in the order of the decisions, and the PodGroups' phases at the end."""

    placed: tuple[Placed, ...] = ()
    phases: dict[str, str] = {}
    sessions: int = 1
    """How many sessions there were: the last one changed nothing."""
    settled: bool = True


class Cluster(Form, frozen=True, kw_only=True):
    """The objects of one cluster."""

    nodes: tuple[Object, ...] | None = ()
    queues: tuple[Object, ...] | None = ()
    podgroups: tuple[Object, ...] | None = ()
    pods: tuple[Object, ...] | None = ()
    priorityclasses: tuple[Object, ...] | None = ()


class Session(Cluster, frozen=True, kw_only=True):
    """A recorded session; ``sessions`` is how many there may be at most.

    ``from_unit_test``: the order of placements, their annotations and some phases are not known.
    """

    id: str
    conf: str
    devices: str = ""
    sessions: int = 1
    volcano: Answer
    from_unit_test: bool = False

    @property
    def kind(self) -> str:
        """The part of the id that names the kind of cluster."""
        return self.id.split("/")[1] if self.id.count("/") else self.id
