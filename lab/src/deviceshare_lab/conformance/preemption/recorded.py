"""Recorded clusters in which pods wait, and the best victims: ``tests/data/preemption/README.md`` has the form."""

# ruff: noqa: RUF012  msgspec gives each struct a default of its own

from typing import Any

import msgspec

from deviceshare_lab.conformance.sessions.recorded import Answer, Object, Session

EXACT = "exact"


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """The best victims of all waiting jobs, one of several equally good sets, and the pods that are placed then.

    ``by``: how they were found: by an exact search of its own, or by asking Volcano's predicates.
    """

    victims: tuple[str, ...] = ()
    count: int = 0
    sum: int = 0
    placed: tuple[str, ...] = ()
    by: str = EXACT


class VolcanoResult(Answer, frozen=True, kw_only=True):
    """The result of Volcano; ``queues``: what each ``deserved``, and had ``allocated`` at first.

    Thousandths of all resources but memory, of which it is bytes.
    """

    queues: dict[str, dict[str, dict[str, float]]] = {}


class Case(Session, frozen=True, kw_only=True):
    """A recorded cluster; ``strict``: the best victims by the rules that deviceshare adds, where they differ."""

    volcano: VolcanoResult
    pdbs: tuple[Object, ...] = ()
    best: Wanted
    strict: Wanted | None = None
    question: str = ""

    @property
    def wanted(self) -> Wanted:
        """The best victims."""
        return self.best if self.strict is None else self.strict

    @property
    def without_whole_gangs(self) -> bool:
        """Whether the best victims were searched with the plugin ``gang``, and only so.

        Volcano's predicates were not asked about gangs that go whole.
        """
        return self.strict is None and self.best.by != EXACT


def reference(pod: dict[str, Any]) -> str:
    """Return ``namespace/name`` of an object."""
    return f"{pod['metadata'].get('namespace', 'default')}/{pod['metadata']['name']}"
