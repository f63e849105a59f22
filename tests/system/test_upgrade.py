"""Two adjacent versions on one bus: services are replaced by those of the other version under load, one at a time.

``DEVICESHARE_UPGRADE_PODS`` raises the number of pods for each step; ``make soak`` uses 200.
"""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest
from deviceshare_cli.settled import SERVICES
from deviceshare_lab.checker.objects import violations
from support import previous
from support.manifests import node, pod
from support.secured import SecuredSystem

PODS = int(os.environ.get("DEVICESHARE_UPGRADE_PODS", "20"))
ORDER = ("inventory", "placement", "binder", "metrics")


@pytest.fixture
def earlier(tmp_path: Path) -> dict[str, str]:
    """Gives the variables with which a process is of the earlier version; skips without the history."""
    directory = tmp_path / "previous"
    directory.mkdir()
    return {"PYTHONPATH": previous.unpack(directory)}


def test_the_earlier_version_is_the_one_that_runs(earlier: dict[str, str]) -> None:
    modules = [f"deviceshare_{service}" for service in SERVICES] + ["deviceshare", "deviceshare_bus"]
    code = f"import {', '.join(modules)}; print(*({', '.join(f'{name}.__file__' for name in modules)}))"
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **earlier}, capture_output=True, text=True, check=True
    )
    paths = done.stdout.split()
    assert len(paths) == len(modules)
    assert all(path.startswith(tuple(earlier["PYTHONPATH"].split(os.pathsep))) for path in paths), paths


@pytest.mark.timeout(400 + PODS * 3)
async def test_services_are_replaced_one_at_a_time_and_back(tmp_path: Path, earlier: dict[str, str]) -> None:
    """Nothing is lost and nothing is done twice, whichever versions write and read."""
    # Without users: the earlier version has no credentials.
    async with SecuredSystem(tmp_path, servers=1, secured=False, environment=earlier) as system:
        steps = [(name, {"PYTHONPATH": ""}) for name in ORDER] + [(name, earlier) for name in reversed(ORDER)]
        await system.cluster.load([node(number) for number in range(len(steps) * PODS // 10)])
        count = 0
        for name, environment in steps:
            await system.cluster.load([pod(number) for number in range(count, count + PODS)])
            count += PODS
            await system.bound(count - PODS // 2, within=200)
            await system.stop(name)
            await system.cluster.load([pod(number) for number in range(count, count + PODS)])
            count += PODS
            await system.start(name, environment=environment)
        await system.bound(count, within=200)
        objects = [await system.cluster.list(kind) for kind in ("Node", "Pod", "Event", "PodGroup")]
        assert violations(*objects) == []
        assert sum(1 for each in objects[1] if each["spec"].get("nodeName")) == count
        await nothing_is_unreadable(system)


async def nothing_is_unreadable(system: SecuredSystem) -> None:
    """Check that no version has put a message of the other one in quarantine, and that no service failed."""
    await asyncio.sleep(0.5)
    for name in SERVICES:
        log = system.log(name)
        assert "quarantined an invalid message" not in log, log
        assert "the service failed" not in log, log
