"""``deviceshare lab study devices``: how much of A100 cards is in use by claims for partitions, by policy.

Claims for one partition arrive at random times, and what is asked for is ``load`` times what the cards have. A claim
that fits nowhere when it arrives is lost; the others end after random times. All policies see the same arrivals.

``kube-scheduler`` is a model of its choice, which shares no code with the product: of the nodes on which the claim fits
the one with the fewest pods, and there the first device.
"""

from collections.abc import Sequence
from heapq import heappop, heappush
from random import Random
from statistics import fmean
from typing import Any, NamedTuple, Protocol

from deviceshare.allocation import Allocator
from deviceshare.conf import default_conf
from deviceshare.model import DeviceClaim, NodeFact, Tenant
from deviceshare.policies import POLICIES
from deviceshare_cli.output import indented_json, table
from msgspec.structs import replace

from deviceshare_lab.clusters.facts import make_request
from deviceshare_lab.clusters.slices import KINDS, PROFILES, WHOLE, claim, claiming, classes, slices
from deviceshare_lab.studies.parallel import run_all

MIXES = {
    "small": (1.0, 6.0, 1.0, 3.0, 1.0, 0.5, 0.25),
    "even": (1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0),
    "large": (0.5, 1.0, 0.0, 2.0, 3.0, 3.0, 2.0),
}
"""How often each of :data:`PROFILES` is asked for."""
KUBE, FIRST = "kube-scheduler", "first"
NAMES = (KUBE, FIRST, *POLICIES)
WARM_UP, MEASURED = 3.0, 12.0
"""Mean lifetimes that are simulated before anything counts, and while it counts."""
_KIND = "a100-mig"
_SLICES = 8
"""Memory slices of a card."""


class Task(NamedTuple):
    """A run."""

    mix: str
    policy: str
    seed: int
    nodes: int
    load: float


class Result(NamedTuple):
    """``used``: the memory slices in use over time, as a share of all; ``served``: the share of the claims."""

    task: Task
    used: float
    served: float


class _Placer(Protocol):
    def place(self, pod: int, profile: int) -> bool: ...

    def leave(self, pod: int) -> None: ...


def study(mixes: Sequence[str], seeds: int, nodes: int, load: float, jobs: int | None, *, as_json: bool) -> None:
    """Run all policies, and print the results."""
    tasks = [Task(mix, policy, seed, nodes, load) for mix in mixes for policy in NAMES for seed in range(seeds)]
    shown = summarized(run_all(run, tasks, jobs))
    head = ("MIX", "POLICY", "USED", "TO KUBE-SCHEDULER", "LEAST", "SERVED")
    rows = [
        (
            each["mix"], each["policy"], f"{each['used_pct']:.2f}",
            f"{each['points']:+.2f}", f"{each['least_points']:+.2f}", f"{each['served_pct']:.2f}",
        )
        for each in shown
    ]  # fmt: skip
    print(indented_json(shown) if as_json else table(head, rows))


def summarized(results: Sequence[Result]) -> list[dict[str, Any]]:
    """Return means over the seeds; ``points``: percentage points above kube-scheduler's choice on the same arrivals."""
    used = {(each.task.mix, each.task.policy, each.task.seed): each for each in results}
    found = []
    for mix, policy in dict.fromkeys((each.task.mix, each.task.policy) for each in results):
        runs = [each for each in results if (each.task.mix, each.task.policy) == (mix, policy)]
        points = [100 * (each.used - used[mix, KUBE, each.task.seed].used) for each in runs]
        found.append(
            {
                "mix": mix,
                "policy": policy,
                "used_pct": round(100 * fmean(each.used for each in runs), 2),
                "points": round(fmean(points), 2),
                "least_points": round(min(points), 2),
                "served_pct": round(100 * fmean(each.served for each in runs), 2),
            }
        )
    return found


def run(task: Task) -> Result:
    """Run a policy on the arrivals of a seed."""
    rng = Random(f"{task.mix} {task.seed}")  # noqa: S311 - repeatable, not secret
    placer: _Placer = _Kube(task.nodes) if task.policy == KUBE else _Product(task.nodes, task.policy)
    weights, capacity = MIXES[task.mix], task.nodes * KINDS[_KIND] * _SLICES
    mean = sum(weight * each.slices for weight, each in zip(weights, PROFILES, strict=True)) / sum(weights)
    rate = task.load * capacity / mean
    at, ends = rng.expovariate(rate), list[tuple[float, int, int]]()
    used = arrived = served = 0
    total, since = 0.0, WARM_UP
    number = 0
    while at < WARM_UP + MEASURED:
        number += 1
        profile, lifetime = rng.choices(range(len(PROFILES)), weights)[0], rng.expovariate(1.0)
        while ends and ends[0][0] <= at:
            end, pod, size = heappop(ends)
            total, since = total + used * max(0.0, end - since), max(since, end)
            placer.leave(pod)
            used -= size
        total, since = total + used * max(0.0, at - since), max(since, at)
        done = placer.place(number, profile)
        if done:
            heappush(ends, (at + lifetime, number, PROFILES[profile].slices))
            used += PROFILES[profile].slices
        if at >= WARM_UP:
            arrived, served = arrived + 1, served + done
        at += rng.expovariate(rate)
    return Result(task, total / (since - WARM_UP) / capacity, served / arrived)


class _Product:
    """The product's allocator under a policy; ``first``: none."""

    def __init__(self, nodes: int, policy: str) -> None:
        conf = replace(default_conf(), dra=True, policy="" if policy == FIRST else policy, nodeorder=None, binpack=None)
        self._allocator = Allocator(conf)
        for device_class in classes():
            self._allocator.devices.put(device_class)
        for number in range(nodes):
            name = f"node-{number:03}"
            self._allocator.set_node(NodeFact(name=name, allocatable={"cpu": 1 << 40, "pods": 1 << 20}))
            for each in slices(_KIND, name):
                self._allocator.devices.put(each)
        facts = [claim(f"ns/{at}", f"pod-{at}", each.name) for at, each in enumerate(PROFILES)]
        for fact in facts:
            self._allocator.devices.put(fact)
        self._requests = [
            replace(make_request({"cpu": 1}), devices=self._allocator.devices.requests(claiming(each)))
            for each in facts
        ]
        self._nodes: dict[int, str] = {}

    def place(self, pod: int, profile: int) -> bool:
        """Place a pod; return whether its claim fits."""
        self._allocator.devices.begin_round()
        placement = self._allocator.place(self._requests[profile])
        if placement is None:
            return False
        self._allocator.take(str(pod), placement, Tenant(devices=(DeviceClaim(f"ns/of-{pod}"),)))
        self._nodes[pod] = placement.node
        return True

    def leave(self, pod: int) -> None:
        """End a pod."""
        self._allocator.release(self._nodes.pop(pod), str(pod))


class _Kube:
    """The least allocated node, and its first device."""

    def __init__(self, nodes: int) -> None:
        self._cards = [[[*WHOLE, *(1,) * _SLICES] for _ in range(KINDS[_KIND])] for _ in range(nodes)]
        self._pods: dict[int, tuple[int, int, tuple[int, ...]]] = {}

    def place(self, pod: int, profile: int) -> bool:
        """Place a pod; return whether its claim fits."""
        counts = [0] * len(self._cards)
        for node, _, _ in self._pods.values():
            counts[node] += 1
        for node in sorted(range(len(counts)), key=counts.__getitem__):
            for card, left in enumerate(self._cards[node]):
                for start in PROFILES[profile].starts:
                    each = PROFILES[profile]
                    need = (*each.amounts, *(int(start <= at < start + each.slices) for at in range(_SLICES)))
                    if all(one >= other for one, other in zip(left, need, strict=True)):
                        self._pods[pod] = node, card, need
                        self._cards[node][card] = [one - other for one, other in zip(left, need, strict=True)]
                        return True
        return False

    def leave(self, pod: int) -> None:
        """End a pod."""
        node, card, need = self._pods.pop(pod)
        self._cards[node][card] = [one + other for one, other in zip(self._cards[node][card], need, strict=True)]
