"""The measurement: fill the cluster and the bus, restart one service after the other, each until its first work."""

import asyncio
import os
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import islice
from pathlib import Path

import msgspec
from deviceshare_bus.streams.publisher import Publisher
from deviceshare_bus.wire.connection import connect
from deviceshare_cli.endpoint import Endpoint
from deviceshare_cli.errors import CommandError
from deviceshare_cli.notices import Notices
from deviceshare_cli.settled import SERVICES
from deviceshare_cli.system import System, Wanted, running
from deviceshare_cluster.interface import Object

from deviceshare_lab.bench.bus import workload
from deviceshare_lab.bench.bus.measure import cpu_seconds, poller_of
from deviceshare_lab.bench.bus.pods import local
from deviceshare_lab.bench.restart.contents import STEPS, Contents, new_pod

CHUNK = 5000
"""Objects that are created at once."""
POLL = 0.05
"""Seconds between two looks at a process."""
REST = 5.0
"""Seconds after the first work, for what a start leaves to do, before the memory is read."""


class Restart(msgspec.Struct, frozen=True):
    """A restart of one service: seconds and CPU seconds from its start until its first work, and its memory in MiB.

    ``memory`` is the resident memory a few seconds later, ``peak`` the most since the start.
    """

    seconds: float
    cpu: float
    memory: float
    peak: float


class Run(msgspec.Struct, frozen=True):
    """The measurements; ``filled_in``: seconds until all services had read everything for the first time."""

    filled_in: float
    load_before: float
    load_after: float
    restarts: dict[str, Restart]


async def measure(contents: Contents, timeout: float, notices: Notices) -> Run:
    """Start a system on generated contents, restart its services, and stop it.

    Raises CommandError if a phase takes longer than ``timeout`` seconds.
    """
    none = dict.fromkeys(("placement", "binder", "metrics"), 0)
    wanted = Wanted(schedulers=("deviceshare",), metrics_port=0, replicas=none)
    async with running(wanted, notices) as system:
        conf = system.directory / "volcano-scheduler.conf"
        conf.write_text(workload.CONF)
        system.wanted = replace(wanted, conf=conf, replicas={})
        return await system.guard(_measure(system, contents, timeout))


async def _measure(system: System, contents: Contents, timeout: float) -> Run:
    load, began = os.getloadavg()[0], time.monotonic()
    await _create(system, contents.node_objects())
    await _create(system, contents.pod_objects())
    await _publish(system, contents)
    await system.start_inventory()
    await system.start_service("placement")
    await system.start_service("binder", "--cluster", system.backing.spec, "--reports-per-second", "5000")
    await system.start_service("metrics", "--metrics-port", system.run.metrics.rpartition(":")[2])
    poller = poller_of(system)
    try:
        async with asyncio.timeout(timeout):
            await poller.settled()
    except TimeoutError:
        raise CommandError(f"not ready after {timeout:g} s: {'; '.join(poller.open)}") from None
    filled_in = time.monotonic() - began
    restarts = {}
    for service in SERVICES:
        try:
            async with asyncio.timeout(timeout):
                restarts[service] = await _restart(system, service)
        except TimeoutError:
            raise CommandError(f"{service} did nothing within {timeout:g} s of its restart") from None
    return Run(filled_in, load, os.getloadavg()[0], restarts)


async def _create(system: System, every: Iterable[Object]) -> None:
    rest = iter(every)
    while part := list(islice(rest, CHUNK)):
        for one in await local(system).local.make(part):
            if one.problem is not None:
                raise CommandError(f"a generated object was refused: {one.problem}")


async def _publish(system: System, contents: Contents) -> None:
    """Write the messages as the users of the bus that may."""
    for service in STEPS:
        bus = await connect(system.run.bus, "bench", credentials=system.run.credentials_of(service))
        try:
            publisher, writes = Publisher(bus), contents.writes(service)
            while part := list(islice(writes, 1000)):
                await asyncio.gather(*[await publisher.send(write) for write in part])
        finally:
            await bus.close()


async def _restart(system: System, service: str) -> Restart:
    """Restart a service and wait until a new pod is bound; metrics: until its metrics show the cluster."""
    before = system.supervisor.pids[service]
    system.supervisor.restart(service)
    await _until(lambda: system.supervisor.pids.get(service, before) != before, POLL / 10)
    began = time.monotonic()
    if service == "metrics":
        await _scraped(system)
    else:
        await _bound(system, f"after-{service}")
    seconds, cpu = time.monotonic() - began, cpu_seconds(system)[service]
    await asyncio.sleep(REST)
    memory, peak = resident(system.supervisor.pids[service])
    return Restart(seconds, cpu, memory, peak)


async def _bound(system: System, name: str) -> None:
    """Create a pod and wait until it is bound."""
    await _create(system, [new_pod(name)])
    while True:
        found = await system.backing.cluster.get("Pod", "bench", name)
        if found is not None and found["spec"].get("nodeName"):
            return
        await asyncio.sleep(POLL)


async def _scraped(system: System) -> None:
    """Wait until the metrics service is ready, and read its metrics once."""
    endpoint = system.run.endpoint
    while True:
        if await asyncio.to_thread(_get, endpoint, "/readyz") is not None:
            break
        await asyncio.sleep(POLL)
    await asyncio.to_thread(_get, endpoint, "/metrics")


async def _until(condition: Callable[[], bool], pause: float) -> None:
    while True:
        if condition():
            return
        await asyncio.sleep(pause)


def _get(endpoint: Endpoint, path: str) -> bytes | None:
    """Return an answer with status 200, None without one."""
    headers = endpoint.headers | {"Accept-Encoding": "gzip"}
    request = urllib.request.Request(endpoint.url + path, headers=headers)  # noqa: S310 - our own URL
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
            found: bytes = answer.read()
            return found
    except (urllib.error.URLError, OSError):
        return None


def resident(pid: int) -> tuple[float, float]:
    """Return the resident memory of a process and its peak, in MiB."""
    fields = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    current, peak = (int(fields[name].split()[0]) / 1024 for name in ("VmRSS", "VmHWM"))
    return current, peak
