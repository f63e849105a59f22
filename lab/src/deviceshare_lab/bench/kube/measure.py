"""The run: the system binds pending pods, then a bare client binds as many equal pods.

There are two runs: with device plugins that serve each pod at once, and with pods that need no device plugin. Then
kube-scheduler, if there is one, binds as many pods without devices.
"""

import asyncio
import os
import subprocess
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec
from deviceshare_bus.messages.codec import decode_status
from deviceshare_bus.messages.subjects import status
from deviceshare_cli.errors import CommandError
from deviceshare_cli.notices import Notices
from deviceshare_cli.system import Wanted, running
from deviceshare_cluster import KUBE

from deviceshare_lab.bench.bus.measure import cpu_seconds
from deviceshare_lab.bench.kube.apiserver import ApiServer, find_binaries, find_program
from deviceshare_lab.bench.kube.client import Client, bare_client
from deviceshare_lab.bench.kube.kube_scheduler import NAME, by_kube_scheduler
from deviceshare_lab.bench.kube.watched import Watched
from deviceshare_lab.bench.kube.workload import CONF, OURS, PODS, binding, node, plain_pod, pod

PLUGINS_IN_FLIGHT = 16
"""Requests of the device plugins at a time."""
ANSWER = 5.0


class Bound(msgspec.Struct, frozen=True):
    """The bindings of the system; times in seconds."""

    given: dict[str, tuple[str, dict[str, str]]]
    """Node and annotations of each."""
    seconds: float
    """From the first binding to the last, as a watch shows them."""
    seconds_with_start: float
    """From the start of inventory to the last binding."""
    cpu_seconds: dict[str, float]
    """CPU time of each process from the first binding to the last."""
    reports_waiting: int
    """Conditions and Events that were not written at the last binding."""


class Size(msgspec.Struct, frozen=True):
    """The size of the benchmark."""

    nodes: int
    pods: int
    in_flight: int
    """Requests of the bare client at a time."""


async def measure(size: Size, timeout: float, notices: Notices) -> dict[str, Any]:
    """Start an API server and the system, and return the measurements with and without plugins by name.

    Raises CommandError, TimeoutError.
    """
    async with (
        api_server() as server,
        asyncio.timeout(timeout),
        bare_client(server, size.in_flight) as client,
        bare_client(server, PLUGINS_IN_FLIGHT) as plugins,
    ):
        await asyncio.gather(*(client.create_node(node(number)) for number in range(size.nodes)))
        load = os.getloadavg()[0]
        beside = await _pair(server, client, plugins, size, notices)
        alone = await _pair(server, client, None, size, notices)
        program = find_program("kube-scheduler")
        names = [f"plain-kube-{number:05d}" for number in range(size.pods)]
        other = None
        if program is not None:
            await client.create(PODS, (plain_pod(name, NAME) for name in names))
            other = await by_kube_scheduler(program, server, names)
    return {
        "nodes": size.nodes,
        "pods": size.pods,
        "bare_requests_in_flight": size.in_flight,
        **beside,
        "without_plugins": alone,
        "kube_scheduler": other,
        "cpus": os.cpu_count(),
        "load_average": {"before": load, "after": os.getloadavg()[0]},
    }


@asynccontextmanager
async def api_server() -> AsyncIterator[ApiServer]:
    """Run an API server, which the services use that are started meanwhile."""
    binaries = find_binaries()
    with tempfile.TemporaryDirectory(prefix="deviceshare-kube-") as directory, patch.dict(os.environ):
        server = ApiServer(binaries, Path(directory))
        try:
            try:
                await asyncio.to_thread(server.start)
            except (OSError, subprocess.CalledProcessError) as error:
                raise CommandError(f"the API server did not start: {error}") from error
            os.environ["KUBECONFIG"] = str(server.kubeconfig())  # the services inherit it
            yield server
        finally:
            server.stop()


async def _pair(
    server: ApiServer, client: Client, plugins: Client | None, size: Size, notices: Notices
) -> dict[str, Any]:
    """Return the measurements of the system and of the bare client under the same conditions."""
    with_plugins = plugins is not None
    kind = "served" if with_plugins else "plain"
    names = [f"{kind}-{number:05d}" for number in range(size.pods)]
    watched = Watched(names, plugins)
    await client.create(PODS, (pod(name, OURS, plugins=with_plugins) for name in names))
    async with watched.watching():
        system = await by_system(server, watched, names, CONF, notices)
    bare = {name: f"bare-{name}" for name in names}
    await client.create(PODS, (pod(name, "none", plugins=with_plugins) for name in bare.values()))
    bindings = [(f"{PODS}/{bare[name]}/binding", binding(bare[name], *system.given[name])) for name in names]
    async with Watched(bare.values(), plugins).watching():
        clock = asyncio.get_running_loop().time
        began = clock()
        await asyncio.gather(*(client.request("POST", path, body) for path, body in bindings))
        bare_seconds = clock() - began
    rate, bare_rate = size.pods / system.seconds, size.pods / bare_seconds
    return {
        "bindings_per_second": round(rate, 1),
        "bare_bindings_per_second": round(bare_rate, 1),
        "ratio": round(rate / bare_rate, 3),
        "seconds": round(system.seconds, 3),
        "seconds_with_start": round(system.seconds_with_start, 3),
        "bare_seconds": round(bare_seconds, 3),
        "cpu_milliseconds_per_pod": {
            name: round(1000 * used / size.pods, 2) for name, used in system.cpu_seconds.items()
        },
        "reports_waiting": system.reports_waiting,
    }


async def by_system(server: ApiServer, watched: Watched, names: list[str], conf: str, notices: Notices) -> Bound:
    """Measure how the system binds pending pods."""
    wanted = Wanted(cluster=KUBE, schedulers=(OURS,), metrics_port=0)
    async with running(wanted, notices) as system:
        path = system.directory / "volcano-scheduler.conf"
        path.write_text(conf)
        system.wanted = Wanted(KUBE, conf=path, schedulers=wanted.schedulers, metrics_port=0)
        began = asyncio.get_running_loop().time()
        await system.start_inventory()
        await system.guard(watched.until(1))
        before = cpu_seconds(system, server.pids)
        await system.guard(watched.until(len(names)))
        after = cpu_seconds(system, server.pids)
        status_of_binder = await system.bus.client.request(status("binder"), b"", timeout=ANSWER)
        return Bound(
            given=watched.given,
            seconds=watched.seconds,
            seconds_with_start=watched.last - began,
            cpu_seconds={name: used - before.get(name, 0.0) for name, used in after.items()},
            reports_waiting=decode_status(status_of_binder.data).detail.get("reports", 0),
        )
