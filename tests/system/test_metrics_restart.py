"""The metrics of a whole system: all four services export them, and the metrics service is killed during the run."""

import asyncio
import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

from deviceshare_bus.messages.codec import decode_ledger
from deviceshare_bus.messages.subjects import Stream, of_replicas
from deviceshare_cli.ports import free_port
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse
from support.bus_users import connect_to_run
from support.manifests import node, pod
from support.promtool import lint
from support.running import RunningSystem, http_get

PODS = 200
SERVICES = ("inventory", "placement", "binder", "metrics")
OPENMETRICS = "application/openmetrics-text; version=1.0.0"

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def read(run: dict[str, Any], accept: str = "", url: str = "") -> str:
    return http_get(run, "/metrics", accept, url).decode()


def samples(text: str) -> Samples:
    found: Samples = {}
    for family in parse(text):
        for sample in family.samples:
            key = (sample.name, frozenset(sample.labels.items()))
            assert key not in found, f"two series {key}"
            found[key] = sample.value
    return found


def by(found: Samples, name: str, *labels: str) -> dict[Any, float]:
    """Return the values of a metric, not 0, by the values of some labels."""
    chosen: Counter[Any] = Counter()
    for (each, pairs), value in found.items():
        if each == name:
            values = tuple(dict(pairs)[label] for label in labels)
            chosen[values[0] if len(values) == 1 else values] += value  # type: ignore[assignment]
    return {key: value for key, value in chosen.items() if value}


async def ledger_memory(run: dict[str, Any]) -> dict[str, int]:
    """Return the memory that the claims in the ledger hold, by node, in MiB."""
    connection = await connect_to_run(run, "reader")
    try:
        stream = await connection.jetstream.stream_info(Stream.LEDGER, subjects_filter="ledger.>")
        found: Counter[str] = Counter()
        for subject in stream.state.subjects or {}:
            if of_replicas(subject):
                continue
            message = await connection.jetstream.get_last_msg(Stream.LEDGER, subject)
            ledger = decode_ledger(message.data or b"")
            for claim in ledger.claims:
                found[ledger.node] += sum(device.memory for grant in claim.grants for device in grant.devices)
        return {name: memory for name, memory in found.items() if memory}
    finally:
        await connection.close()


async def until(condition: Any, within: float = 60.0) -> Any:
    async with asyncio.timeout(within):
        while not (found := await condition()):
            await asyncio.sleep(0.3)
    return found


async def test_metrics_of_a_run_during_which_the_metrics_service_is_killed(tmp_path: Path) -> None:
    async with RunningSystem(tmp_path, None, "--metrics-port", str(free_port())) as system:
        await system.cluster.load([node(number) for number in range(20)])
        await system.cluster.load([pod(number) for number in range(PODS // 2)])
        await system.bound(system.cluster, PODS // 2, within=200)

        async def counted(expected: int) -> Samples | None:
            try:
                found = samples(await asyncio.to_thread(read, system.run))
            except OSError:
                return None
            return found if by(found, "deviceshare_steps_total", "step").get("bound") == expected else None

        await until(lambda: counted(PODS // 2))
        os.kill(system.process("metrics"), signal.SIGKILL)
        await asyncio.sleep(1.0)

        async def ready() -> bool:
            try:
                return "deviceshare_pods" in await asyncio.to_thread(read, system.run)
            except OSError:
                return False

        await until(ready)
        await system.cluster.load([pod(number) for number in range(PODS // 2, PODS)])
        await system.bound(system.cluster, PODS, within=200)

        async def confirmed() -> Samples | None:
            found = await counted(PODS // 2)
            if found is None or by(found, "deviceshare_claims_unconfirmed"):
                return None
            # Inventory tells later that the last pods are bound.
            return found if by(found, "deviceshare_pods", "state") == {"bound": PODS} else None

        # Counters: the second half, each pod once. Gauges: everything, as in the ledger.
        found = await until(confirmed)
        assert by(found, "deviceshare_schedule_attempts_total", "result")["scheduled"] == PODS // 2
        assert by(found, "volcano_schedule_attempts_total", "result")["scheduled"] == PODS // 2
        assert by(found, "deviceshare_pod_seen_to_bound_seconds_count") == {(): PODS // 2}
        assert by(found, "deviceshare_claims", "state") == {"bound": PODS}
        assert by(found, "deviceshare_queue_pods", "queue", "state") == {("default", "bound"): PODS}
        memory = {name: amount * 1024 * 1024 for name, amount in (await ledger_memory(system.run)).items()}
        assert by(found, "deviceshare_card_memory_allocated_bytes", "node") == memory
        assert by(found, "volcano_queue_allocated_milli_cpu", "queue_name")["default"] > 0
        await each_service(system)


async def each_service(system: RunningSystem) -> None:
    logs = Path(system.run["directory"])
    for service in SERVICES:
        log = (logs / f"{service}.log").read_text()
        assert "nats-server denies" not in log, "the user of the service lacks a right"
        lines = [line for line in log.splitlines() if "health and metrics" in line]
        url = lines[-1].partition('"addresses":["')[2].partition('"')[0]
        text = await asyncio.to_thread(read, system.run, "", url)
        found = samples(text)
        assert by(found, "deviceshare_service_ready", "service") == {service: 1}
        assert by(found, "deviceshare_bus_connected", "service") == {service: 1}
        assert "deviceshare_bus_lag_messages{" in text
        assert by(found, "deviceshare_bus_storage_bytes", "service")[service] > 0
        assert by(found, "process_cpu_seconds_total")[()] > 0
        assert by(found, "deviceshare_service_event_loop_lag_seconds_count", "service")[service] > 0
        signing = by(found, "deviceshare_service_signing_enabled", "service")
        assert signing == ({service: 1} if service in ("inventory", "binder") else {}), "up signs with a random key"
        if service != "metrics":
            assert by(found, "deviceshare_bus_writes_total", "result").get("written", 0) > 0
        if service == "placement":
            assert by(found, "volcano_e2e_scheduling_latency_milliseconds_count")[()] > 0
        list(parse_openmetrics(await asyncio.to_thread(read, system.run, OPENMETRICS, url)))
        assert lint(text) == []
    list(parse_openmetrics(await asyncio.to_thread(read, system.run, OPENMETRICS)))
    assert lint(await asyncio.to_thread(read, system.run)) == []
