"""`deviceshare drain card` on a running system: pods are placed elsewhere, and the pods of a card are those shown."""

import asyncio
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deviceshare_bus.runtime.plugins import load_families
from deviceshare_cli.card_holders import SystemView, card_holders, system_view
from deviceshare_cli.endpoint import Endpoint
from deviceshare_localcluster import LocalCluster
from support.card_objects import node, waiting
from support.up_commands import EXAMPLES, UpSystem, running_up

pytestmark = pytest.mark.system
SECONDS = 60


def deployment(replicas: int) -> dict[str, Any]:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": waiting("", 6000)["spec"]}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}


def budget(most: int) -> dict[str, Any]:
    spec = {"maxUnavailable": most, "selector": {"matchLabels": {"app": "web"}}}
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"}, "spec": spec}


def cards(system: UpSystem) -> dict[str, str]:
    """Return the card of each placed pod."""
    found = json.loads(system.out("get", "pods", "-o", "json"))["items"]
    return {each["name"]: each["devices"][0]["id"] for each in found if each["node"] and each["devices"]}


def until(true: Callable[[], bool], what: Callable[[], object]) -> None:
    end = time.monotonic() + SECONDS
    while not true():
        assert time.monotonic() < end, what()
        time.sleep(0.1)


async def overwrite_cards(directory: Path, pod: str) -> None:
    """Make the annotation of a pod name another card."""
    run = json.loads((directory / "run" / "run.json").read_text())
    async with LocalCluster(run["cluster"], name="test") as cluster:
        await cluster.annotate("Pod", "default", pod, {"volcano.sh/vgpu-ids-new": "elsewhere,NVIDIA,6000,0:;"})


def test_the_pods_of_a_drained_card_are_placed_elsewhere(tmp_path: Path) -> None:
    system = UpSystem(tmp_path)
    (tmp_path / "manifests").mkdir()
    objects = [node("a"), node("b"), node("c"), deployment(2), budget(0)]
    (tmp_path / "manifests" / "all.json").write_text(json.dumps(objects))
    with running_up(system, "--cluster", f"local:{tmp_path / 'manifests'}"):
        until(lambda: len(cards(system)) == 2, lambda: cards(system))
        before = cards(system)
        name, card = next(iter(before.items()))
        where = f"{card.partition('-')[0]}/0"
        late = system.command("drain", "card", where, "--timeout", "10s", "--reason", "fan")
        assert late.returncode == 1, late.stdout
        assert f"default/{name} blocked by PodDisruptionBudget b: 0 of 0 allowed; retry in 1 s" in late.stdout
        assert f"error: pod default/{name} is still there: blocked by PodDisruptionBudget b" in late.stderr
        assert cards(system) == before
        assert system.command("apply", "-f", "-", stdin=json.dumps(budget(1))).returncode == 0
        done = system.command("drain", "card", where, "--timeout", "1m")
        assert (done.returncode, done.stderr) == (0, ""), done
        assert done.stdout.splitlines()[-2:] == [
            f"pod default/{name} evicted",
            f"{card.partition('-')[0]}/{card} drained: 1 pod evicted",
        ]
        (other,) = before.keys() - {name}
        (third,) = {"a-0", "b-0", "c-0"} - set(before.values())
        until(lambda: set(cards(system).values()) == {before[other], third}, lambda: cards(system))
        asyncio.run(overwrite_cards(tmp_path, other))
        asked = system.command("drain", "card", f"{before[other].partition('-')[0]}/0", "--dry-run")
        assert f"evicting pod default/{other} (dry run)" in asked.stdout.splitlines(), "the system knows its card"
        for option, value, problem in (
            ("--timeout", "soon", "--timeout soon: expected a duration such as 90s or 5m"),
            ("--grace-period", str(2**31), "is not in the range"),
        ):
            wrong = system.command("drain", "card", where, option, value)
            assert wrong.returncode == 2
            assert problem in " ".join(wrong.stderr.replace("│", "").split())
        unlimited = system.command("drain", "card", where, "--timeout", "0", "--grace-period", "-5", "--dry-run")
        assert (unlimited.returncode, unlimited.stderr) == (0, "")


def test_the_pods_of_a_card_are_those_that_the_page_shows(tmp_path: Path) -> None:
    """Cards of all families in the examples, MIG cards and partitioned NPUs among them."""
    system = UpSystem(tmp_path)

    async def found(run: dict[str, Any], devices: list[Any]) -> dict[str, list[str]]:
        async with LocalCluster(run["cluster"], name="test") as cluster:
            pods = await cluster.list("Pod")
        view = await system_view(Endpoint(run["metrics"], run["token"]))
        held = {}
        for card in ((each["node"], each["id"]) for each in devices):
            by_system, by_annotations = (card_holders(pods, [card], known) for known in (view, SystemView()))
            assert by_system.pods == by_annotations.pods
            assert by_system.unseen == []
            for each in (by_system, by_annotations):
                # kubelet chooses the chips of a plain number.
                assert list(each.unread) == ["default/ascend-910b3-whole-pod"] * (card[0] == "ascend-910b3")
            assert card in view.cards
            held["/".join(card)] = [each.fact.ref for each in by_system.pods]
        return held

    with running_up(system, "--cluster", f"local:{EXAMPLES}"):
        load_families()
        run = json.loads((tmp_path / "run" / "run.json").read_text())
        # Whole cards of the resource nvidia.com/gpu have no ids.
        found_devices = json.loads(system.out("get", "devices", "-o", "json"))["items"]
        devices = [each for each in found_devices if "/" not in each["id"]]
        held = asyncio.run(found(run, devices))
        expected = {f"{each['node']}/{each['id']}": sorted(each["pods"]) for each in devices}
        assert held == expected
        modes = {each["mode"] for each in devices if each["pods"]}
        assert modes == {"gpu-share", "hami-core", "hami-gpu", "mig", "mindcluster", "mps"}
