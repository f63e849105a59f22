"""Three scenes that check the fairness of the order of jobs, each with a claim.

The same seed gives the same pods, independent of decisions.
"""

import random
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from deviceshare.conf import SchedulerConf, default_conf, tiers
from deviceshare.model import NodeFact, PodRequest, QueueFact
from deviceshare_cli.plots import Curve, Plot
from msgspec.structs import replace

from deviceshare_lab.clusters.facts import make_cards, make_request
from deviceshare_lab.studies.virtual_cluster import Arrival, Sample, Simulation

MEMORY, CARD_MEMORY, CARDS = "volcano.sh/vgpu-memory", 81920, 8
CPUS = 64_000
MINUTE, HOUR = 60.0, 3600.0
WEIGHTS = {"one": 1, "two": 2, "four": 4}


class Scene(NamedTuple):
    """The result of a scene: a claim, its numbers, whether the claim holds, and its curves."""

    name: str
    claim: str
    numbers: dict[str, float]
    holds: bool
    plot: Plot


def scenes(seed: int) -> Iterator[Scene]:
    """Run all scenes."""
    yield weights(seed)
    yield dominant_shares()
    yield starvation(seed)


def weights(seed: int, nodes: int = 24, hours: float = 3.0) -> Scene:
    """Queues with weights 1, 2 and 4 always have pending pods; the first one starts with the whole cluster."""
    chance = random.Random(seed)  # noqa: S311 - repeatable, not secret
    requests = [_request(memory=gibibytes * 1024) for gibibytes in (2, 4, 8, 10, 16, 20)]

    def arrival(queue: str) -> Arrival:
        return Arrival(queue, queue, chance.choice(requests), float(chance.randrange(120, 1200)))

    def again(simulation: Simulation, placed: Arrival, now: float) -> None:
        # Each placed pod is followed by another: the number of pending pods of the queue is constant.
        simulation.add(now + 1.0, arrival(placed.queue))

    queues = [QueueFact(name=name, weight=weight) for name, weight in WEIGHTS.items()]
    simulation = Simulation(_nodes(nodes), queues, _conf(), again)
    for _ in range(nodes * CARDS * 10):
        simulation.add(0.0, arrival("one"))
    for name in ("two", "four"):
        for _ in range(nodes * CARDS * 10):
            simulation.add(hours * HOUR / 6, arrival(name))
    samples = simulation.run(hours * HOUR, MINUTE)
    total = nodes * CARDS * CARD_MEMORY
    curves = [
        Curve(f"queue {name}, weight {weight}", [(each.at / MINUTE, _percent(each, name, total)) for each in samples])
        for name, weight in WEIGHTS.items()
    ]
    late = samples[len(samples) // 2 :]
    numbers: dict[str, float] = {}
    holds = True
    for name, weight in WEIGHTS.items():
        deserved = 100 * weight / sum(WEIGHTS.values())
        has = sum(_percent(each, name, total) for each in late) / len(late)
        numbers |= {f"{name}_deserves_percent": round(deserved, 2), f"{name}_has_percent": round(has, 2)}
        holds &= abs(has - deserved) <= 0.02 * deserved
    claim = "queues of weights 1:2:4 get their deserved share of the cards' memory, within 2 %"
    plot = Plot("Queues of weights 1 : 2 : 4", "minutes", "percent of all card memory", curves)
    return Scene("weights", claim, numbers, holds, plot)


def dominant_shares(nodes: int = 10, hours: float = 2.0) -> Scene:
    """One queue with a job that requests many CPUs and an earlier job that requests whole cards."""
    jobs = {"cpus": _request(cpu=4000, memory=1024), "cards": _request(cpu=1000, memory=CARD_MEMORY)}
    pods = nodes * 400
    curves, numbers = [], {}
    for plugin in ("drf", ""):
        conf = _conf(f"priority gang {plugin}")
        simulation = Simulation(_nodes(nodes), [QueueFact(name="default")], conf)
        for number, (name, request) in enumerate(reversed(jobs.items())):
            simulation.add(number * MINUTE, Arrival(name, "default", request, 10 * MINUTE, pods, 1))
        samples = simulation.run(hours * HOUR, MINUTE, tuple(jobs))
        totals = {"cpus": ("cpu", nodes * CPUS), "cards": (MEMORY, nodes * CARDS * CARD_MEMORY)}
        for name, (resource, total) in totals.items():
            shares = [(each.at / MINUTE, 100 * each.by_name[name][resource] / total) for each in samples]
            late = [share for _, share in shares[len(shares) // 2 :]]
            numbers[f"{name}_has_percent_{'with_drf' if plugin else 'without'}"] = round(sum(late) / len(late), 2)
            curves.append(Curve(f"{name}, {'with' if plugin else 'without'} drf", shares, dashed=not plugin))
    cpus, cards = (curve.points[len(curve.points) // 2 :] for curve in curves[:2])
    apart = max(abs(one - other) for (_, one), (_, other) in zip(cpus, cards, strict=True))
    numbers["largest_difference_with_drf"] = round(apart, 2)
    claim = "with drf a job of many CPUs and a job of many cards have the same dominant share, within 2 %"
    plot = Plot("Dominant shares in one queue", "minutes", "percent of its dominant resource", curves)
    return Scene("drf", claim, numbers, apart <= 2.0, plot)


def starvation(seed: int, nodes: int = 16, hours: float = 2.0) -> Scene:
    """More small pods arrive than there is room for; after half an hour a gang arrives that needs half of all nodes."""
    curves, numbers = [], {}
    for guard in (300.0, 0.0):
        chance = random.Random(seed)  # noqa: S311 - repeatable, not secret
        simulation = Simulation(_nodes(nodes), [QueueFact(name="default")], replace(_conf(), starvation=guard))
        at = 0.0
        small = _request(memory=CARD_MEMORY // 2)
        while at < hours * HOUR:
            simulation.add(round(at), Arrival("small", "default", small, float(chance.randrange(300, 900))))
            at += chance.expovariate(1.2 * nodes * CARDS * 2 / 600)
        gang = Arrival("gang", "default", _request(memory=CARD_MEMORY, cards=CARDS), 30 * MINUTE, nodes // 2)
        simulation.add(30 * MINUTE, gang)
        samples = simulation.run(hours * HOUR, MINUTE, ("gang", "small"))
        word = "with" if guard else "without"
        for name in ("small", "gang") if guard else ("gang",):
            total = nodes * CARDS * CARD_MEMORY
            points = [(each.at / MINUTE, 100 * each.by_name[name][MEMORY] / total) for each in samples]
            shown = "small pods" if name == "small" else "the gang"
            curves.append(Curve(f"{shown}, {word} the guard", points, dashed=not guard))
        waited = simulation.started.get("gang")
        numbers[f"gang_waited_seconds_{word}_guard"] = -1.0 if waited is None else waited - 30 * MINUTE
    # The guard's time, and the longest run of a pod that was running then.
    holds = 0.0 <= numbers["gang_waited_seconds_with_guard"] <= 300.0 + 900.0
    claim = "a gang of half the cluster starts among small pods within the guard's time and their longest run"
    plot = Plot("A large gang among small pods", "minutes", "percent of all card memory", curves)
    return Scene("starvation", claim, numbers, holds, plot)


def _conf(order: str = "priority gang drf") -> SchedulerConf:
    return replace(default_conf(), policy="binpack", tiers=tiers(order, "proportion"))


def _nodes(number: int) -> Iterator[NodeFact]:
    for at in range(number):
        cards = make_cards(f"GPU-{at:03d}", CARDS, "NVIDIA-A100", CARD_MEMORY, 40)
        yield NodeFact(name=f"node-{at:03d}", cards=cards, allocatable={"cpu": CPUS, "memory": 2**40, "pods": 1000})


def _request(*, memory: int, cpu: int = 100, cards: int = 1) -> PodRequest:
    return make_request({"cpu": cpu, MEMORY: memory, "volcano.sh/vgpu-number": cards})


def _percent(sample: Sample, queue: str, total: int) -> float:
    return 100 * sample.by_queue[queue][MEMORY] / total


def as_text(shown: Sequence[Scene]) -> str:
    """Return the scenes as text, a few lines each."""
    lines = []
    for scene in shown:
        lines.append(f"{scene.name}: {scene.claim}: {'yes' if scene.holds else 'NO'}")
        lines += [f"  {name}: {value:g}" for name, value in scene.numbers.items()]
    return "\n".join(lines)
