"""A run of the examples with all four services is recorded and replayed: each core gives byte-identical commands."""

import asyncio
import json
import os
import signal
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from deviceshare_bus.cores.core_log import read_dump, replay
from deviceshare_cli.system import signing_environment
from deviceshare_metrics.core import build_core, build_snapshot, decode_event
from support.running import COMMAND, RunningSystem, http_get

EXAMPLES = Path(__file__).parents[2] / "examples"
SERVICES = ("inventory", "placement", "binder", "metrics")
LEAST: dict[str, dict[str, int]] = {
    "inventory": {"CLUSTER node": 40, "CLUSTER pod": 80, "CLUSTER podgroup": 5, "CLUSTER synced": 1, "RecordStep": 55},
    "placement": {"LEDGER": 15, "EXPLAIN": 8, "RecordStep": 55},
    "binder": {"BindPod": 40, "OUTCOME": 15, "LockNode": 5, "Annotate": 5, "SetPodCondition": 10, "RecordEvent": 40},
    "metrics": {},
}
"""The commands that the core log of a service must at least contain; a write counts as each of its subjects."""


class Run(NamedTuple):
    """A recorded run: what the metrics service showed, and the core log of each service with its replay."""

    shown: dict[str, Any]
    core_logs: dict[str, Path]
    replays: dict[str, subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return asyncio.run(recorded(tmp_path_factory.mktemp("run")))


async def recorded(directory: Path) -> Run:
    """Run the examples until they are settled, delete a bound pod, and have the services dump their core logs."""
    logs = directory / "logs"
    logs.mkdir()
    environment = {
        "DEVICESHARE_CORE_LOG_DIR": str(logs),
        "DEVICESHARE_CORE_LOG_ENTRIES": "10000000",
        "PYTHONHASHSEED": "1",
    }
    options = ("--conf", str(EXAMPLES / "volcano-scheduler.conf"))
    async with RunningSystem(directory, EXAMPLES, *options, **environment) as system:
        await system.logged("NAMESPACE")  # the table that `up` prints when all is settled
        await system.cluster.delete("Pod", "default", "mps-pod")
        async with asyncio.timeout(60):
            shown: dict[str, Any] = {}
            while "mps-pod" in str(shown.get("claims", "mps-pod")) or shown != await items(system.run):
                shown = await items(system.run)
                await asyncio.sleep(1)
        for service in SERVICES:
            os.kill(system.process(service), signal.SIGUSR1)
        found = await system.logged(r"(\w+): warning: the core log was written to (\S+)", len(SERVICES))
        core_logs = {service: Path(path) for service, path in found}
        # The key that signs is not in a core log.
        keys = signing_environment(Path(system.run["directory"]))
        replays = await asyncio.gather(*(asyncio.to_thread(replayed, path, keys) for path in core_logs.values()))
    return Run(shown, core_logs, dict(zip(core_logs, replays, strict=True)))


def replayed(core_log: Path, keys: dict[str, str]) -> subprocess.CompletedProcess[str]:
    command = [str(COMMAND), "replay", str(core_log), "--json"]
    environment = {**os.environ, **keys, "PYTHONHASHSEED": "2"}
    return subprocess.run(command, env=environment, capture_output=True, text=True)


async def items(run: dict[str, Any]) -> dict[str, Any]:
    """Return what the metrics service of a run shows."""

    def read(kind: str) -> Any:
        return json.loads(http_get(run, f"/api/v1/{kind}"))["items"]

    return {kind: await asyncio.to_thread(read, kind) for kind in ("nodes", "devices", "pods", "claims")}


def done(commands: list[dict[str, Any]]) -> Counter[str]:
    """Count commands by name, and written subjects by stream; those of CLUSTER also by kind."""
    counts: Counter[str] = Counter()
    for command in commands:
        match command:
            case {"writes": writes}:
                subjects = [write["subject"] for write in writes]
            case {"subject": subject}:
                subjects = [subject]
            case _:
                counts[command["command"]] += 1
                continue
        for subject in subjects:
            stream, kind = subject.upper().split(".")[:2]
            counts[f"CLUSTER {kind.lower()}" if stream == "CLUSTER" else stream] += 1
    return counts


@pytest.mark.parametrize("service", SERVICES)
def test_a_core_gives_identical_commands_in_another_process(run: Run, service: str) -> None:
    replayed = run.replays[service]
    assert replayed.stdout, replayed.stderr
    header, *entries = map(json.loads, replayed.stdout.splitlines())
    assert (header["service"], header["dropped"]) == (service, 0)
    differing = [each for each in entries if each["identical"] is not True]
    assert (replayed.returncode, differing[:3]) == (0, []), replayed.stderr
    counts = done([each for entry in entries for each in entry["commands"]])
    assert not {name: counts[name] for name, least in LEAST[service].items() if counts[name] < least}, counts


def test_the_state_of_the_metrics_service_is_the_same(run: Run) -> None:
    """The core of the metrics service returns no commands: what it showed is compared."""
    with run.core_logs["metrics"].open("rb") as file:
        header, entries = read_dump(file)
        core = build_core(header.arguments)
        events = Counter(type(each.event).__name__ for each in replay(core, entries, decode_event))
    snapshot = build_snapshot(core.store)
    for kind, shown in run.shown.items():
        assert msgspec.json.decode(msgspec.json.encode(tuple(getattr(snapshot, kind)))) == shown, kind
    assert len(run.shown["claims"]) > 40
    least = {"FactReceived": 130, "LedgerReceived": 15, "OutcomesReceived": 15, "ExplanationReceived": 8}
    assert not {name: events[name] for name, count in least.items() if events[name] < count}, events
