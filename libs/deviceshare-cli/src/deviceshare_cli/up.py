"""``deviceshare up``: start the system, load the directory, show the decisions, and end when settled or on a signal."""

import asyncio
import contextlib
import functools
import signal
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass

import msgspec
from deviceshare.model import Backoff, Claim, ConfigError, DeviceshareError
from deviceshare.objects import decode_pod
from deviceshare_bus.messages.codec import decode_ledger
from deviceshare_bus.messages.subjects import Stream, address
from deviceshare_bus.runtime.plugins import load_families
from deviceshare_bus.streams.follower import Follower
from deviceshare_bus.wire.connection import Connection
from deviceshare_bus.wire.tasks import end
from deviceshare_cluster.interface import Cluster, ClusterError, Object
from deviceshare_metrics.api import PodDevice

from deviceshare_cli.errors import CommandError
from deviceshare_cli.live import Live
from deviceshare_cli.live_table import LiveTable
from deviceshare_cli.loading import Loaded, read_conf
from deviceshare_cli.notices import Notices, to_stderr
from deviceshare_cli.pods import PodView, devices_of, read_pod
from deviceshare_cli.result import Result, as_json, as_table, pod_results
from deviceshare_cli.settled import ClusterState, Poller
from deviceshare_cli.system import System, Wanted, running
from deviceshare_cli.waiting_reasons import waiting_reasons, with_reason

WATCHED = ("Node", "Pod", "PodGroup", "Queue", "ConfigMap")
"""The kinds that inventory watches, whose revisions are compared with inventory's."""


REJECTED_STATUS = 3
"""The exit status of ``--until-settled`` if the system is settled, but objects of the directory were rejected."""
RETRY = Backoff(0.1, 2.0)
"""Seconds between two attempts to read the pods, without a limit: the supervisor ends a system that does not recover,
and the connection reports that it waits."""
LAST_SECONDS = 3.0
"""Timeout of reading the pods once more after Ctrl-C."""


@dataclass(frozen=True)
class UpOptions:
    """The options of ``up``."""

    wanted: Wanted
    until_settled: bool
    json: bool
    timeout: float | None


async def up(options: UpOptions) -> int:
    """Run the system and return the exit status."""
    notices = Notices()
    try:
        load_families()
        if options.wanted.conf is not None:
            read_conf(options.wanted.conf)  # inventory reports its warnings
    except ConfigError as error:
        raise CommandError(" ".join(str(error).split())) from None
    main = asyncio.current_task()
    assert main is not None
    interrupted = asyncio.Event()

    def interrupt() -> None:
        if not interrupted.is_set():
            interrupted.set()
            main.cancel()

    loop = asyncio.get_running_loop()
    # Closing the terminal ends it too, except under nohup.
    hangup = [signal.SIGHUP] if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN else []
    for signum in (signal.SIGINT, signal.SIGTERM, *hangup):
        loop.add_signal_handler(signum, interrupt)
    show = Show(options, notices)
    try:
        async with running(options.wanted, notices) as system:
            try:
                return await system.guard(show.run(system))
            except asyncio.CancelledError:
                # Only the first signal interrupts; the task goes on with the last table, and stops the system.
                if interrupted.is_set() and show.stays and main.uncancel() == 0:
                    await show.last_table(system)
                    return 0
                raise
    except asyncio.CancelledError:
        if not interrupted.is_set():
            raise
        # Ctrl-C is the normal end of ``up``, but a failure with --until-settled.
        return 0 if show.stays else 130
    except ClusterError as error:
        raise CommandError(str(error)) from None
    finally:
        for signum in (signal.SIGINT, signal.SIGTERM, *hangup):
            loop.remove_signal_handler(signum)


class Show:
    """Loads the directory into a running system and shows the decisions."""

    def __init__(self, options: UpOptions, notices: Notices) -> None:
        self._options = options
        self._notices = notices
        terminal = sys.stdout.isatty() and not options.json
        self.stays = not options.until_settled
        """Whether the system keeps running when it is settled."""
        self._live = Live(stays=self.stays) if terminal else None
        self._print_line = to_stderr if options.json else functools.partial(print, flush=True)
        self._table = LiveTable(options.wanted.schedulers, held)

    async def run(self, system: System) -> int:
        """Return the exit status once the system is settled or the timeout expired: 3 if objects were rejected."""
        if not self._options.json:
            for name, address in addresses(system):
                print(f"{name:<14} {address}", flush=True)
        loaded = await system.backing.fill(self._options.wanted.schedulers, self._notices.report)
        await system.start_inventory()
        system.beside(self._watch(system))
        async with self._drawing(system):
            open_work = await self._settle(system)

            if self._live is not None:
                self._live.settled = not open_work
            if self.stays:
                if self._live is None:
                    await self._print(system, loaded, open_work)
                await asyncio.Event().wait()
        await self._print(system, loaded, open_work)
        if open_work:
            raise CommandError(f"not settled after {self._options.timeout:g} s: {'; '.join(open_work)}")
        return REJECTED_STATUS if loaded.rejected else 0

    async def last_table(self, system: System) -> None:
        """Print the table of the pods as they are when the live table ends."""
        if self._live is not None:
            with contextlib.suppress(ClusterError, TimeoutError):
                async with asyncio.timeout(LAST_SECONDS):
                    await self._print(system, Loaded([], [], []), ())

    async def _settle(self, system: System) -> tuple[str, ...]:
        """Wait until the system is settled or the timeout expires; return the work that is open then."""
        poller = Poller(system.bus, lambda: self._cluster_state(system), system.wanted.replicas)
        try:
            async with asyncio.timeout(self._options.timeout):
                while True:
                    await poller.settled()
                    # The watch may lag behind the cluster: read the pods once more.
                    with contextlib.suppress(ClusterError):
                        if all(pod.answered for pod, _ in await self._pods(system)):
                            return ()
        except TimeoutError:
            return tuple(poller.open)

    @contextlib.asynccontextmanager
    async def _drawing(self, system: System) -> AsyncIterator[None]:
        if self._live is None:
            yield
            return
        task = asyncio.create_task(self._live.show(self._table, system, self._notices))
        try:
            yield
        finally:
            await end(task)

    async def _watch(self, system: System) -> None:
        async for batch in system.backing.cluster.watch(WATCHED):
            for line in self._table.take(batch):
                if self._live is None:
                    self._print_line(line)

    async def _cluster_state(self, system: System) -> ClusterState:
        return ClusterState(
            revision=self._table.revision,
            sequence=await system.backing.sequence(),
            controllers_open=system.backing.controllers_open,
            unanswered=tuple(sorted(pod.ref for pod in self._table.unanswered)),
        )

    async def _pods(self, system: System) -> list[tuple[PodView, tuple[PodDevice, ...]]]:
        """Read the pods of the configured schedulers from the cluster, because the watch may lag."""
        found = []
        for obj in await list_pods(system.backing.cluster):
            raw = msgspec.json.encode(obj)
            pod = read_pod(raw)
            if pod.scheduler in self._options.wanted.schedulers:
                found.append((pod, held(raw)))
        return found

    async def _print(self, system: System, loaded: Loaded, open_work: tuple[str, ...]) -> None:
        """Print the result."""
        claims = await read_claims(system.bus)
        reasons = await waiting_reasons(system.run.endpoint)
        pods = [(with_reason(pod, reasons), devices) for pod, devices in await self._pods(system)]
        results = pod_results(pods, claims, loaded.refused_pods)
        if self._options.json:
            rejected, warnings = tuple(loaded.rejected), tuple(loaded.warnings)
            print(as_json(Result(results, rejected, warnings, not open_work, open_work)), flush=True)
        else:
            print("\n" + as_table(results, claims.values(), time.time()), flush=True)


async def list_pods(cluster: Cluster) -> list[Object]:
    """Return all pods, once the cluster answers: its nats-server may be restarting. Raises ClusterError: final."""
    failures = 0
    while True:
        try:
            return await cluster.list("Pod")
        except ClusterError as error:
            if error.final:
                raise
        await asyncio.sleep(RETRY.delay(failures))
        failures += 1


async def read_claims(bus: Connection) -> dict[str, Claim]:
    """Return the claims of the ledger by the uid of their pod, without those that are withdrawn or nominated."""
    messages = await Follower(bus, Stream.LEDGER).read_to_end()
    # The stream also has leases.
    ledgers = [
        decode_ledger(message.data)
        for message in messages
        if (where := address(message.subject)) is not None and where.kind == "ledger"
    ]
    claims = (claim for ledger in ledgers for claim in ledger.claims)
    return {claim.uid: claim for claim in claims if not (claim.withdraw or claim.waits_for)}


def addresses(system: System) -> list[tuple[str, str]]:
    """Return the names and addresses of a running system's endpoints."""
    run = system.run
    return [
        ("dashboard", run.endpoint.page),
        ("metrics", f"{run.metrics}/metrics"),
        ("JSON", f"{run.metrics}/api/v1/status"),
        ("health", f"{run.metrics}/healthz"),
        ("bus", run.bus),
        ("cluster", run.cluster or system.backing.spec),
        ("logs", run.directory),
    ]


def held(raw: bytes) -> tuple[PodDevice, ...]:
    """Return the devices in a pod's annotations; () if they cannot be decoded."""
    try:
        return devices_of(decode_pod(raw).held)
    except (DeviceshareError, msgspec.MsgspecError):
        return ()
