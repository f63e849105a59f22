"""The checkers of simulated histories: always on, and independent of the workload and of the scheduler.

They read only what the API server and the streams hold, by brute force (:mod:`deviceshare_lab.checker`), with
:mod:`.knowledge` for nodes that were replaced.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from deviceshare_lab.chaos.knowledge import Knowledge
from deviceshare_lab.checker.bindings import Bindings
from deviceshare_lab.checker.ledgers import Ledgers
from deviceshare_lab.checker.settled import Settled
from deviceshare_lab.world.apiserver import ApiServer, Seen
from deviceshare_lab.world.jetstream import Stored, Stream
from deviceshare_lab.world.nats_server import Server

__all__ = ["Checkers", "Violation"]


class Violation(NamedTuple):
    """A broken rule; ``at`` is the virtual time in seconds."""

    rule: str
    text: str
    at: float


class Checkers:
    """All checkers of one history. ``violation`` is the first one found."""

    def __init__(self, api: ApiServer, bus: Server, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.violation: Violation | None = None
        self.ledgers = Ledgers(api, self.report)
        self.bindings = Bindings(api, self.ledgers, Knowledge(api, bus), clock, self.report)
        self._settled = Settled(api, self.ledgers)

    def report(self, rule: str, text: str) -> None:
        """Report a violation."""
        if self.violation is None:
            self.violation = Violation(rule, text, self._clock())

    def object_changed(self, seen: Seen) -> None:
        """Hear of a write to the API server."""
        self.ledgers.object_changed(seen)
        self.bindings.object_changed(seen)

    def written(self, stream: Stream, messages: Sequence[Stored], writer: str) -> None:
        """Hear of messages that were written to a stream together."""
        if stream.name == "LEDGER":
            self.ledgers.written(messages, writer)
        elif stream.name == "OUTCOME":
            self.bindings.outcomes_written(messages, writer)

    def damaged(self, stream: Stream) -> None:
        """Hear that a fault changed the content of a stream: what is lost by it is not the services' doing."""
        if stream.name == "LEDGER":
            self.ledgers.damaged(stream)
        elif stream.name == "OUTCOME":
            self.bindings.outcomes_damaged()

    def bind_requested(self, uid: str, node: str, by: str) -> None:
        """Hear of a request for a binding that was sent to the API server."""
        self.bindings.requested(uid, node, by)

    def unsettled(self) -> list[str]:
        """Return what is not as it must be when nothing happens any more."""
        return self._settled.problems()
