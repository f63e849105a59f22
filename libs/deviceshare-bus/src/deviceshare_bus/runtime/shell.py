"""The shell of every service: it follows streams, passes events to the core, and executes the commands.

The shell decodes messages and puts those that cannot be decoded in quarantine, reports when a stream has been read to
its end, runs the core's timer, publishes, reads back, and performs a service's own commands. It holds no state of the
service. An exception of the core ends the process, after the core log was dumped.
"""

import asyncio
import contextlib
import logging
import os
import tempfile
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from deviceshare.model import ConfigError

from deviceshare_bus.cores.core import (
    CaughtUp,
    Command,
    CommonCommand,
    Core,
    Event,
    ExpireOthers,
    PutLatest,
    Read,
    ReadBack,
    Stopping,
    Tick,
    Write,
)
from deviceshare_bus.cores.core_log import CoreLog
from deviceshare_bus.messages.codec import Message, encode
from deviceshare_bus.messages.subjects import of_replicas
from deviceshare_bus.runtime.core_writes import CoreWrites
from deviceshare_bus.runtime.invalid_messages import InvalidMessages
from deviceshare_bus.runtime.options import core_log_limit
from deviceshare_bus.runtime.records import Records
from deviceshare_bus.runtime.service import Context
from deviceshare_bus.streams.expiring import expire_others
from deviceshare_bus.streams.follower import BusWiped
from deviceshare_bus.streams.latest import LatestWriter
from deviceshare_bus.streams.publisher import Write as BusWrite
from deviceshare_bus.streams.readback import read_back
from deviceshare_bus.wire.connection import ConnectionEnded
from deviceshare_bus.wire.tasks import Alarm, Rounds, end, finish

log = logging.getLogger("deviceshare.shell")

READS = 64
"""The most subjects that are read back concurrently."""
YIELD_AFTER = 1000
"""Messages that are handled before other tasks of the process run."""
DRAIN = 10.0
"""Seconds that requests in flight, such as bindings, have after a wipe: the next epoch must see their effects."""
REST = 1.0
"""Seconds for which the shell waits for the answers to writes when it ends."""
LAST = 2.0
"""Seconds that a service's own last commands, such as Events, may take when it ends."""
MAX_COMMANDS = 50_000
"""Commands that may wait for execution before followers pause."""
NO_FAULTS = (BusWiped, ConfigError, ConnectionEnded)
"""Errors that are not a fault of the core: they end it without a dump of the core log."""


class Source(NamedTuple):
    """A stream that a service follows.

    ``decode`` (see :func:`deviceshare_bus.messages.validation.validated`) turns a message into an event, None for a
    message that does not concern the service; it raises ``msgspec.MsgspecError`` for an invalid message. ``known``
    returns whether the core knows a message, or a later one of its subject: it is not decoded. Most of them are the
    core's own writes, which it knows from their answers. ``history``: all messages, not the last of each
    subject.
    """

    stream: str
    decode: Callable[[Message], Event | None]
    known: Callable[[Message], bool] | None = None
    history: bool = False


Perform = Callable[[Any], Awaitable[Event | None]]
"""Executes a service's own command and returns the event that answers it, None for none."""


def _is_fault(error: BaseException) -> bool:
    """Return whether an error is a fault of the core; a group is none, its errors are asked one by one."""
    return isinstance(error, Exception) and not isinstance(error, (*NO_FAULTS, BaseExceptionGroup))


async def _perform_nothing(command: Command) -> None:
    raise TypeError(f"no service performs {type(command).__name__}")


class Shell:
    """Runs one core on one epoch of the bus.

    Args:
        context: the service's connection.
        core: the service's state machine.
        sources: the streams to follow.
        perform: executes the commands that are not defined in :mod:`deviceshare_bus.cores.core`; each runs in a task of
            its own, and the core bounds how many it issues.
        arguments: what ``core`` was built from, for the core log; no secrets.
        read_interval: :attr:`deviceshare_bus.wire.client.Client.read_interval` once all streams have been read, for a
            service on which no other service waits.
    """

    def __init__(
        self,
        context: Context,
        core: Core,
        sources: Sequence[Source],
        perform: Perform = _perform_nothing,
        *,
        arguments: dict[str, Any] | None = None,
        read_interval: float = 0.0,
    ) -> None:
        self._context = context
        self._core = core
        self._sources = {source.stream: source for source in sources}
        self._perform = perform
        self._clock = context.clock
        self._records = Records(context)
        self._latest = LatestWriter(context.publisher)
        self._leases = LatestWriter(context.publisher)
        """For leases and fences, which must not wait for the answers to other messages."""
        self._unread = set(self._sources)
        """Streams that have not been read to their end yet."""
        self._read_interval = read_interval
        self._wake = Alarm()
        self._events = 0
        """Events since the last tick."""
        self._answers: deque[Event] = deque()
        """Events from callbacks, which must not raise: the tasks of the shell handle them."""
        self._commands: deque[Command] = deque()
        self._command_added = Alarm()
        self._command_done = asyncio.Event()
        self._performing = 0
        self._own: set[asyncio.Task[None]] = set()
        """The service's own commands in flight."""
        self._writes = CoreWrites(
            context.publisher,
            self._clock if context.tracing.enabled else None,
            self.post,
            lambda error: self._group.create_task(_fail(error)),
        )
        self._ended = False
        self._reads = asyncio.Semaphore(READS)
        self._invalid = InvalidMessages(context, self._reads, self.handle)
        self.core_log = CoreLog(context.service, context.instance, arguments or {}, core_log_limit())
        context.open_work = self._open_work
        context.dump_core_log = self.dump

    def _open_work(self) -> int:
        performing = self._performing + len(self._writes.in_flight)
        return self._core.open_work + len(self._answers) + len(self._commands) + performing + self._latest.open

    async def run(self, *tasks: Coroutine[Any, Any, None]) -> None:
        """Run until cancelled, together with tasks of the service such as a watch of the cluster."""
        try:
            async with asyncio.TaskGroup() as self._group:
                self._group.create_task(self._latest.run())
                self._group.create_task(self._leases.run())
                self._group.create_task(self._execute())
                for source in self._sources.values():
                    self._group.create_task(self._follow(source))
                for task in tasks:
                    self._group.create_task(task)
                self._group.create_task(self._run_timer())
                self._group.create_task(self._invalid.recheck())
        except BaseExceptionGroup as failed:
            self._ended = True
            if failed.subgroup(_is_fault):
                self.dump()
            elif self._own:
                log.info("waiting for %d requests in flight", len(self._own))
                await asyncio.wait(self._own, timeout=DRAIN)
            raise
        except asyncio.CancelledError:
            await self._stop()
            raise
        finally:
            self._ended = True
            if self._read_interval:  # the next epoch is read without pauses
                self._context.connection.client.read_interval = 0.0
            await end(*self._own)

    async def _stop(self) -> None:
        """Apply answers, write the core's last messages, then the end of its lease; execute its last requests."""
        requests: list[asyncio.Future[Any]] = [*self._writes.in_flight, *self._own]
        if requests:
            await asyncio.wait(requests, timeout=REST)
        self._handle_answers()
        waiting, self._commands = self._commands, deque()
        for command in waiting:
            if isinstance(command, PutLatest) and not of_replicas(command.subject):
                self._latest.put(command.subject, encode(command.message), ttl=command.ttl)
            else:
                self._records.write(command)
        await self._latest.drain(REST)
        earlier = len(self._commands)
        self.handle(Stopping())
        sent = []
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(REST):
                for command in self._commands:
                    if isinstance(command, Write):
                        await self._writes.send(command)
                    elif isinstance(command, PutLatest):
                        write = BusWrite(command.subject, encode(command.message))
                        sent.append(await self._context.publisher.send(write, ttl=command.ttl))
                await asyncio.gather(*sent, *self._writes.in_flight, return_exceptions=True)
        own = [command for command in list(self._commands)[earlier:] if not isinstance(command, CommonCommand)]
        self._handle_answers()
        self.handle(Tick())
        for command in self._commands:
            self._records.write(command)
        if own:
            await self._context.events.flush()  # the process may be killed before the requests are answered
        if failed := await finish(LAST, *map(self._answer, own)):
            log.warning("%d of the last %d requests were not executed", failed, len(own))

    def handle(self, event: Event, message: int = 0) -> None:
        """Pass an event to the core and queue its commands; ``message``: the bytes of the message of the event.

        For tasks of the service; never call it in a callback.
        """
        now = self._clock()
        commands: list[Command] = []
        try:
            commands = self._core.handle(event, now)
        finally:
            self.core_log.append(now, event, commands, message)
        if commands:
            self._commands.extend(commands)
            self._command_added.set()
        if not isinstance(event, Tick):
            self._events += 1
            self._wake.set()

    def post(self, event: Event) -> None:
        """Have an event handled by a task of the shell. For callbacks."""
        self._answers.append(event)
        self._wake.set()

    def dump(self) -> Path | None:
        """Write the core log to a file in ``DEVICESHARE_CORE_LOG_DIR`` (default: the directory for temporary files).

        Returns and logs its path; None, and an error in the log, if it cannot be written.
        """
        directory = Path(os.environ.get("DEVICESHARE_CORE_LOG_DIR") or tempfile.gettempdir())
        path = directory / f"{self._context.instance}-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}.corelog"
        try:
            path.write_bytes(self.core_log.dump())
        except OSError as error:
            log.error("the core log cannot be written: %s", error)
            return None
        log.warning("the core log was written to %s", path)
        return path

    async def settled(self) -> None:
        """Wait until few enough commands wait for execution."""
        while len(self._commands) > MAX_COMMANDS:
            self._command_done.clear()
            await self._command_done.wait()

    async def _follow(self, source: Source) -> None:
        caught_up = False
        async for batch in self._context.follow(source.stream, history=source.history):
            # The answers to writes come first, so that a core need not decode the messages that it has written.
            self._handle_answers()
            for number, message in enumerate(batch.messages, 1):
                self._handle_message(source, message)
                if not number % YIELD_AFTER:
                    await asyncio.sleep(0)
            if batch.caught_up and not caught_up:
                caught_up = True
                self.handle(CaughtUp(source.stream))
                self._unread.discard(source.stream)
                if self._read_interval and not self._unread:
                    self._context.connection.client.read_interval = self._read_interval
            await self.settled()

    def _handle_message(self, source: Source, message: Message) -> None:
        if source.known is not None and source.known(message):
            return
        try:
            event = source.decode(message)
        except msgspec.MsgspecError as error:
            event = self._invalid.quarantine(source.stream, message, error)
        else:
            self._invalid.replaced(source.stream, message.subject)
        if event is not None:
            self.handle(event, len(message.data))

    async def _run_timer(self) -> None:
        rounds = Rounds()  # a burst of events becomes few decisions and few writes
        while True:
            now = self._clock()
            due = self._core.next_due(now)
            await self._wake.wait(None if due is None else max(0.0, due - now.monotonic))
            await rounds.begin()
            self._wake.clear()
            self._handle_answers()
            rounds.took(self._events + 1)
            self._events = 0
            self.handle(Tick())

    def _handle_answers(self) -> None:
        while self._answers:
            self.handle(self._answers.popleft())

    # Execution of commands

    async def _execute(self) -> None:
        """Execute commands in their order; what takes time runs in a task of its own."""
        while True:
            await self._command_added.wait()
            self._command_added.clear()
            while self._commands:
                command = self._commands[0]
                match command:
                    case Write():
                        await self._writes.send(command)
                    case PutLatest(subject=subject, message=message, ttl=ttl):
                        latest = self._leases if of_replicas(subject) else self._latest
                        latest.put(subject, encode(message), ttl=ttl)
                    case Read():
                        self._start(self._read(command))
                    case ExpireOthers(stream=stream, keep=keep, ttl=ttl):
                        self._start(expire_others(self._context.connection, self._context.publisher, stream, keep, ttl))
                    case _:
                        if not self._records.write(command):
                            self._perform_own(command)
                self._commands.popleft()
            self._command_done.set()

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        self._performing += 1
        self._group.create_task(work).add_done_callback(self._performed)

    def _perform_own(self, command: Command) -> None:
        """Execute a command of the service outside of the task group: it may outlive the core's other tasks."""
        self._performing += 1
        task = asyncio.create_task(self._answer(command))
        self._own.add(task)
        task.add_done_callback(self._own_performed)

    def _own_performed(self, task: asyncio.Task[None]) -> None:
        self._performing -= 1
        self._own.discard(task)
        if not (self._ended or task.cancelled()) and (error := task.exception()) is not None:
            self._group.create_task(_fail(error))

    def _performed(self, _: asyncio.Task[None]) -> None:
        self._performing -= 1

    async def _answer(self, command: Command) -> None:
        event = await self._perform(command)
        if event is not None and not self._ended:
            self.handle(event)

    async def _read(self, command: Read) -> None:
        async with self._reads:
            found = await read_back(self._context.connection, command.stream, command.subject)
        if found is not None:
            self._handle_message(self._sources[command.stream], found)
        self.handle(ReadBack(command.subject, found.sequence if found is not None else 0))


async def _fail(error: BaseException | None) -> None:
    """End the service: an exception in a callback alone would be lost."""
    raise error if error is not None else RuntimeError("a write failed without an error")
