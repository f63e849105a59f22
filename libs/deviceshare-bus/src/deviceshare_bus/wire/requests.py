"""Requests to nats-server: one inbox subscription per connection, an answer for each request.

nats-py's own ``request`` waits with ``asyncio.wait_for``, which on Python 3.11 loses a cancellation that arrives
together with the answer. Here a cancellation always reaches the task that waits.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeVar

from nats.errors import Error as NatsError
from nats.errors import NoRespondersError
from nats.errors import TimeoutError as NatsTimeoutError

from deviceshare_bus.wire.framing import Received

log = logging.getLogger("deviceshare.connection")

SWEEP = 0.5
"""Seconds between two searches for requests past their timeout."""
NO_RESPONDERS = "503"

Answer = TypeVar("Answer")
Answered = Callable[[str, Received | str], None]
"""Hears of a request, by its reply subject: of its answer, or why there is none. Called once; it must not wait."""


class Sender(Protocol):
    """What requests need of a client: :class:`.client.Client`, or the simulated one."""

    @property
    def is_connected(self) -> bool:
        """Whether the server can be reached right now."""

    def new_inbox(self) -> str:
        """Return a new subject for answers."""

    def send(self, subject: str, data: bytes = b"", reply: str = "", head: bytes = b"") -> None:
        """Send a message. Raises ``nats.errors.Error``."""


class Unanswered(NatsTimeoutError):
    """There was no answer. The server may have executed the request."""

    def __str__(self) -> str:
        """Return the reason."""
        return ", ".join(map(str, self.args))


class _Expected(NamedTuple):
    answered: Answered
    until: float
    timeout: float


class Requests:
    """The requests in flight on one connection.

    A request ends with its answer, when its time is over, or when the connection is lost, whichever is first. Nothing
    is sent again. Every entry leaves the table within its timeout and :data:`SWEEP`. The callers bound the number of
    entries by the number of requests that they have in flight.
    """

    def __init__(self, client: Sender) -> None:
        self._client = client
        self._prefix = client.new_inbox() + "."
        self._count = 0
        self._waiting: dict[str, _Expected] = {}
        self._sweeper: asyncio.TimerHandle | None = None
        self.subject = self._prefix + "*"
        """Where answers arrive, for :meth:`answered`."""

    @property
    def in_flight(self) -> int:
        """How many answers are awaited."""
        return len(self._waiting)

    def expect(self, answered: Answered, timeout: float) -> str:
        """Return a reply subject for a request that the caller sends, and whose answer ``answered`` hears of.

        ``timeout``: seconds until the request fails.
        """
        loop = asyncio.get_running_loop()
        self._count += 1
        reply = f"{self._prefix}{self._count}"
        self._waiting[reply] = _Expected(answered, loop.time() + timeout, timeout)
        if self._sweeper is None:
            self._sweeper = loop.call_later(SWEEP, self._sweep)
        return reply

    def get(
        self,
        subject: str,
        data: bytes,
        decode: Callable[[Received], Answer],
        failed: Callable[[str], Exception],
        timeout: float,
    ) -> asyncio.Future[Answer]:
        """Send a request and return the future of its answer.

        Args:
            subject: where to send it.
            data: its payload.
            decode: turns the answer into the future's result, or raises the future's exception.
            failed: builds the future's exception from a reason if no answer arrives, or the request cannot be sent.
            timeout: seconds until then.
        """
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

        def answered(_: str, answer: Received | str) -> None:
            if future.done():
                return
            if isinstance(answer, str):
                future.set_exception(failed(answer))
                future.exception()  # marks the error as retrieved: the caller may have been cancelled
                return
            try:
                result = decode(answer)
            except Exception as error:
                future.set_exception(error)
                future.exception()
            else:
                future.set_result(result)

        if self._client.is_connected:
            reply = self.expect(answered, timeout)
            try:
                self._client.send(subject, data, reply)
            except (NatsError, OSError) as error:
                self.fail(reply, repr(error))
        else:
            answered("", "not connected")
        return future

    async def request(self, subject: str, data: bytes, timeout: float, head: bytes = b"") -> Received:
        """Send a request and return the answer; ``head`` as :func:`.framing.encode_headers` returns it.

        Raises:
            Unanswered: the connection is down or was lost, or ``timeout`` seconds are over.
            NoRespondersError: the subject has no subscriber.
        """
        if not self._client.is_connected:
            raise Unanswered("not connected")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Received | str] = loop.create_future()

        def answered(_: str, answer: Received | str) -> None:
            if not future.done():
                future.set_result(answer)

        reply = self.expect(answered, timeout)
        try:
            self._client.send(subject, data, reply, head)
        except (NatsError, OSError) as error:
            del self._waiting[reply]
            raise Unanswered(repr(error)) from error
        timer = loop.call_later(timeout, answered, reply, f"no answer within {timeout} s")
        try:
            answer = await future
        finally:
            timer.cancel()
            self._waiting.pop(reply, None)
        if isinstance(answer, str):
            raise Unanswered(answer)
        if answer.status == NO_RESPONDERS:
            raise NoRespondersError
        return answer

    def answered(self, message: Received) -> None:
        """Deliver an answer to its request; an answer without a waiting request is dropped."""
        expected = self._waiting.pop(message.subject, None)
        if expected is not None:
            expected.answered(message.subject, message)

    def lost(self, reason: str = "the connection was lost") -> None:
        """Fail all requests in flight."""
        for reply in list(self._waiting):
            self.fail(reply, reason)

    def fail(self, reply: str, reason: str) -> None:
        """Fail a request, unless it has been answered. An error that its callback raises is logged."""
        expected = self._waiting.pop(reply, None)
        if expected is None:
            return
        try:
            expected.answered(reply, reason)
        except Exception:  # the other requests fail too, and nats-py, which calls `lost`, reconnects
            log.exception("the failure of a request cannot be handled")

    def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        try:
            for reply, expected in list(self._waiting.items()):
                if expected.until < now:
                    self.fail(reply, f"no answer within {expected.timeout} s")
        finally:
            self._sweeper = loop.call_later(SWEEP, self._sweep) if self._waiting else None
