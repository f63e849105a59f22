"""Volcano's own scheduler places pods, ``deviceshare up --dry-run`` decides about them as well, and writes nothing.

The API server is real, the nodes are objects without a kubelet. Each pod that Volcano bound, by the audit log, has to
be in the comparison. With ``-s`` the counts are printed.
"""

import asyncio
import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from deviceshare_cluster.interface import Object
from deviceshare_lab.clusters import objects
from deviceshare_lab.clusters.cards import Published, gpus, vgpu
from support import dry_run, volcano
from support.apiserver import ApiServer
from support.dry_run import DryRun
from support.history import asked
from support.kube_cluster import CleanCluster
from support.waiting import until

pytestmark = pytest.mark.timeout(900)

SECONDS = 600.0
BATCH, SINGLE = 24, 16
FIRST, TOO_MUCH = "first", "too-much"
_PLACE = r"(\S+) \(([^)]*)\)"
_COMPARED = re.compile(
    rf"default/([\w-]+): bound by another scheduler to {_PLACE}( as decided)?(?:, decided: {_PLACE})?"
)
_RESULT = re.compile(r'"result":"(\w+)"')


class Compared(NamedTuple):
    """What the binder's log says of a pod: the result, and the cards of Volcano's choice and of the decision."""

    result: str
    volcano: tuple[str, ...]
    decided: tuple[str, ...]


class On(NamedTuple):
    """What a card and its node have on them."""

    shares: int
    """The vGPUs of the node."""
    filled: float
    """The part of the card's memory that is used once the pod that is compared is there."""


class Case(NamedTuple):
    """A family under a policy: each node with the MiB of a card, what pods request in turn, which choices agree."""

    arguments: dict[str, str | int]
    nodes: Sequence[tuple[Published, int]]
    requests: Sequence[dict[str, str]]
    too_much: dict[str, str]
    agree: Callable[[Sequence[On], Sequence[On]], bool]
    """Whether both chose well, from what Volcano's cards and the decided ones have, of different nodes."""


def vgpus(policy: str, agree: Callable[[Sequence[On], Sequence[On]], bool]) -> Case:
    """Return four nodes with four T4 each, and two with four A100."""
    t4 = [vgpu([f"GPU-t{node}-{card}" for card in range(4)], "NVIDIA-T4", 15360, 10, "hami-core") for node in range(4)]
    a100 = [
        vgpu([f"GPU-a{node}-{card}" for card in range(4)], "NVIDIA-A100", 40960, 10, "hami-core") for node in (4, 5)
    ]
    requests = [(1, 4000, 0), (1, 9000, 30), (2, 3000, 20), (1, 20000, 50), (1, 1500, 0)]
    return Case(
        {"VGPUEnable": "true", "SchedulePolicy": policy, "ScheduleWeight": 10},
        [*((cards, 15360) for cards in t4), *((cards, 40960) for cards in a100)],
        [_vgpu(*each) for each in requests],
        _vgpu(1, 50000, 0),
        agree,
    )


def _vgpu(number: int, memory: int, cores: int) -> dict[str, str]:
    amounts = {"number": number, "memory": memory, "cores": cores}
    return {f"volcano.sh/vgpu-{name}": str(amount) for name, amount in amounts.items() if amount}


def _memory(amount: int) -> dict[str, str]:
    return {"volcano.sh/gpu-memory": str(amount)}


def equally_full(theirs: Sequence[On], ours: Sequence[On]) -> bool:
    """Volcano takes any of the nodes with the best score."""
    return math.isclose(sum(card.filled for card in theirs), sum(card.filled for card in ours))


def emptier(theirs: Sequence[On], ours: Sequence[On]) -> bool:
    """Volcano scores all nodes alike under ``spread``, deviceshare takes the one with the fewest vGPUs."""
    return ours[0].shares <= theirs[0].shares


def anywhere(theirs: Sequence[On], ours: Sequence[On]) -> bool:
    """Without a policy all nodes are alike."""
    return True


CASES = {
    "vgpu, binpack": vgpus("binpack", equally_full),
    "vgpu, spread": vgpus("spread", emptier),
    "gpu-memory": Case(
        {"GPUSharingEnable": "true"},
        [(gpus(4, 16384), 16384)] * 4,
        [_memory(amount) for amount in (1024, 6000, 9000)],
        _memory(20000),
        anywhere,
    ),
}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ApiServer]:
    if why := volcano.missing():
        pytest.skip(f"allowed: {why}")
    with dry_run.audited(tmp_path) as audited:
        yield audited


@pytest.mark.parametrize("name", CASES)
async def test_each_pod_that_volcano_binds_is_compared(name: str, server: ApiServer, tmp_path: Path) -> None:
    case = CASES[name]
    conf = tmp_path / "conf.yaml"
    conf.write_text(objects.conf(case.arguments, plugins=("priority", "gang", "predicates", "nodeorder")))
    with volcano.running(server, tmp_path, conf) as account:
        async with asyncio.timeout(SECONDS), CleanCluster(server) as cluster:
            await add_nodes(cluster, case)
            async with DryRun(tmp_path, server, conf) as system:
                scene = Scene(cluster, system, log := await system.logs() / "binder.log", case)
                await system.follows(log)
                await scene.create_one_without_room()
                while "Insufficient" not in await system.shown("explain", "pod", TOO_MUCH):
                    pass
                await scene.run_at_once()
                await scene.run_one_by_one()
                # The metrics service hears of a comparison after the log.
                results = await until(system.results, lambda found: sum(found.values()) >= len(scene.created), SECONDS)
                compared = scene.compared()
                unequal, at_once = scene.unequal(), scene.counts(BATCH)
                left = [pod["metadata"]["name"] for pod in await cluster.list("Pod") if not pod["spec"].get("nodeName")]
                claimed = await system.claims()
    bindings = [one for one in asked(tmp_path) if one.what.startswith("pods/binding ") and one.code < 300]
    assert {one.user for one in bindings} == {account}
    bound = {one.what.rpartition("/")[2] for one in bindings} - {FIRST}
    print(f"\n{name}: Volcano bound {len(bound)} pods: {results}, {BATCH} at once: {at_once}")  # noqa: T201
    assert bound == scene.created == compared.keys()
    assert results == Counter(one.result for one in compared.values())
    assert unequal == []
    assert sorted(left) == ["gang-0", "gang-1", TOO_MUCH]
    assert not {one["name"] for one in claimed} & set(left)
    assert dry_run.verbs(tmp_path) <= {"get", "list", "watch"}


async def add_nodes(cluster: CleanCluster, case: Case) -> None:
    """Create the nodes once Volcano schedules: it ignores the cards of nodes that are there before its first cycle."""
    await cluster.create(objects.node(FIRST, {}))
    await cluster.create(objects.pod(FIRST, {"cpu": "1"}, scheduler="volcano", **objects.TOLERANT))
    await until(lambda: cluster.list("Pod"), lambda pods: all(pod["spec"].get("nodeName") for pod in pods), SECONDS)
    await cluster.delete("Pod", "default", FIRST)
    await cluster.delete("Node", "", FIRST)
    for number, (cards, _) in enumerate(case.nodes):
        await cluster.create(objects.node(f"node-{number}", cards.resources, cards.annotations))


class Scene:
    """The pods of a case: many at once, some that go, and then one after the other."""

    def __init__(self, cluster: CleanCluster, system: DryRun, log: Path, case: Case) -> None:
        self._cluster, self._system, self._log, self._case = cluster, system, log, case
        self.created: set[str] = set()
        """The names of the pods that have room."""
        self._gone: set[str] = set()
        """The names of those that were deleted."""

    async def create_one_without_room(self) -> None:
        """Create a pod that has no room on the nodes."""
        await self._create(TOO_MUCH, self._case.too_much)

    async def run_at_once(self) -> None:
        """Create many pods, wait until every pod with room is in the comparison, and delete some."""
        group = objects.pod_group("gang", 3)
        # Volcano's definition has no subresource of it.
        del group["status"]
        await self._cluster.create(group)
        # A member is missing.
        for member in range(2):
            await self._create(f"gang-{member}", self._case.requests[0], group="gang")
        for number in range(BATCH):
            await self._create_with_room(number)
        await self._all_compared()
        for number in range(0, BATCH, 3):
            self._gone.add(f"pod-{number}")
            await self._cluster.delete("Pod", "default", f"pod-{number}")
        await self._as_volcano_placed()

    async def run_one_by_one(self) -> None:
        """Create pods, each when the one before is in the comparison and counts where Volcano placed it."""
        for number in range(BATCH, BATCH + SINGLE):
            await self._create_with_room(number)
            await self._all_compared()
            await self._as_volcano_placed()

    def compared(self) -> dict[str, Compared]:
        """Return what the binder's log says of each pod that was bound, in its order."""
        found = {}
        for line in self._log.read_text().splitlines():
            if (said := _COMPARED.search(line)) and (result := _RESULT.search(line)):
                theirs, ours = _cards(said[2], said[3]), _cards(said[5], said[6])
                found[said[1]] = Compared(result[1], theirs, theirs if said[4] else ours)
        return found

    def counts(self, count: int) -> dict[str, int]:
        """Return the number of each result of the first pods."""
        compared = self.compared()
        return dict(Counter(compared[f"pod-{number}"].result for number in range(count)))

    def unequal(self) -> list[str]:
        """Return the pods that came alone, for which one of both chose worse cards."""
        used: dict[str, Counter[str]] = defaultdict(Counter)
        wrong = []
        for name, (result, theirs, ours) in self.compared().items():
            number = int(name.rpartition("-")[2])
            if number < BATCH and number % 3 == 0:
                continue
            memory = next(int(much) for what, much in self._requested(number).items() if what.endswith("memory"))
            found = [[self._on(card, used, memory) for card in cards] for cards in (theirs, ours)]
            agree = result == "same_cards" or (result == "other_node" and self._case.agree(*found))
            if number >= BATCH and result != "undecided" and not agree:
                wrong.append(f"{name}: {result}, Volcano {theirs} {found[0]}, deviceshare {ours} {found[1]}")
            for card in theirs:
                used[card].update({"shares": 1, "memory": memory})
        return wrong

    def _on(self, card: str, used: dict[str, Counter[str]], memory: int) -> On:
        node = card.partition("/")[0]
        _, size = self._case.nodes[int(node.rpartition("-")[2])]
        shares = sum(on["shares"] for other, on in used.items() if other.startswith(f"{node}/"))
        return On(shares, (used[card]["memory"] + memory) / size)

    def _requested(self, number: int) -> dict[str, str]:
        return self._case.requests[number % len(self._case.requests)]

    async def _all_compared(self) -> None:
        await until(self.compared, self.created.issubset, SECONDS)

    async def _as_volcano_placed(self) -> None:
        """Wait until the ledgers have no pod that went, and none elsewhere than Volcano placed it.

        The binder compares a pod before it refuses the claim, which counts until placement removes it.
        """
        compared = self.compared()

        def agree(claims: list[Object]) -> bool:
            cards = {one["name"]: {f"{one['node']}/{device['id']}" for device in one["devices"]} for one in claims}
            return not self._gone & cards.keys() and all(
                cards.get(name, set(each.volcano)) == set(each.volcano) for name, each in compared.items()
            )

        await until(self._system.claims, agree, SECONDS)

    async def _create_with_room(self, number: int) -> None:
        name = f"pod-{number}"
        self.created.add(name)
        await self._create(name, self._requested(number))

    async def _create(self, name: str, limits: dict[str, str], group: str = "") -> None:
        made: Object = objects.pod(name, limits, scheduler="volcano", group=group, **objects.TOLERANT)
        await self._cluster.create(made)


def _cards(node: str | None, names: str | None) -> tuple[str, ...]:
    return tuple(f"{node}/{name}" for name in (names or "").split(", ") if node)
