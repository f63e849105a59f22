"""Requests to nats-server: one inbox subscription per connection, an answer for each request.

nats-py's own ``request`` waits with ``asyncio.wait_for``, which on Python 3.11 loses a cancellation that arrives
together with the answer. Here a cancellation always reaches the task that waits.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error as NatsError
from nats.errors import NoRespondersError
from nats.errors import TimeoutError as NatsTimeoutError

SWEEP = 0.5
"""Seconds between two searches for requests past their timeout."""
NO_RESPONDERS = "503"

Answer = TypeVar("Answer")


class Unanswered(NatsTimeoutError):
    """There was no answer. The server may have executed the request."""

    def __str__(self) -> str:
        """Return the reason."""
        return ", ".join(map(str, self.args))


class _Expected(NamedTuple):
    future: asyncio.Future[Any]
    decode: Callable[[Msg], Any]
    failed: Callable[[str], Exception]
    until: float
    timeout: float


class Requests:
    """The requests in flight on one connection.

    A request ends with its answer, when its time is over, or when the connection is lost, whichever is first. Nothing
    is sent again. Every entry leaves the table within its timeout and :data:`SWEEP`. The callers bound the number of
    entries by the number of requests that they have in flight.
    """

    def __init__(self, client: Client) -> None:
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

    def expect(
        self, decode: Callable[[Msg], Answer], failed: Callable[[str], Exception], timeout: float
    ) -> tuple[str, asyncio.Future[Answer]]:
        """Return a reply subject and the future of its answer, for a request that :meth:`publish` sends.

        Args:
            decode: turns the answer into the future's result, or raises the future's exception.
            failed: builds the future's exception from a reason if no answer arrives.
            timeout: seconds until then.

        The future has failed already where the connection is down: nothing may wait in the client's buffer, to be sent
        long after the caller has given up.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Answer] = loop.create_future()
        # Marks the error as retrieved: the caller may have been cancelled.
        future.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._count += 1
        reply = f"{self._prefix}{self._count}"
        if self._client.is_connected:
            self._waiting[reply] = _Expected(future, decode, failed, loop.time() + timeout, timeout)
            if self._sweeper is None:
                self._sweeper = loop.call_later(SWEEP, self._sweep)
        else:
            future.set_exception(failed("not connected"))
        return reply, future

    async def publish(
        self, subject: str, data: bytes, reply: str = "", headers: Mapping[str, str] | None = None
    ) -> None:
        """Send a message. What the client does not take fails the future of ``reply``."""
        try:
            await self._client.publish(subject, data, reply=reply, headers=headers)  # type: ignore[arg-type]
        except (NatsError, OSError) as error:
            self._fail(reply, repr(error))

    async def request(self, subject: str, data: bytes, timeout: float, headers: Mapping[str, str] | None = None) -> Msg:
        """Send a request and return the answer.

        Raises:
            Unanswered: the connection is down or was lost, or ``timeout`` seconds are over.
            NoRespondersError: the subject has no subscriber.
        """
        reply, future = self.expect(_unchanged, Unanswered, timeout)
        try:
            async with asyncio.timeout(timeout):
                if not future.done():
                    await self.publish(subject, data, reply, headers)
                answer = await future
        except Unanswered:
            raise
        except TimeoutError:
            raise Unanswered(f"no answer within {timeout} s") from None
        finally:
            self._waiting.pop(reply, None)
        if answer.headers and answer.headers.get("Status") == NO_RESPONDERS:
            raise NoRespondersError
        return answer

    async def answered(self, message: Msg) -> None:
        """Deliver an answer to its request; an answer without a waiting request is dropped."""
        expected = self._waiting.pop(message.subject, None)
        if expected is None or expected.future.done():
            return
        try:
            result = expected.decode(message)
        except Exception as error:
            expected.future.set_exception(error)
        else:
            expected.future.set_result(result)

    def lost(self, reason: str = "the connection was lost") -> None:
        """Fail all requests in flight."""
        for reply in list(self._waiting):
            self._fail(reply, reason)

    def _fail(self, reply: str, reason: str) -> None:
        expected = self._waiting.pop(reply, None)
        if expected is not None and not expected.future.done():
            expected.future.set_exception(expected.failed(reason))

    def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        for reply, expected in list(self._waiting.items()):
            if expected.until < now:
                self._fail(reply, f"no answer within {expected.timeout} s")
        self._sweeper = loop.call_later(SWEEP, self._sweep) if self._waiting else None


def _unchanged(message: Msg) -> Msg:
    return message
