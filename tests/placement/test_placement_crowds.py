"""Pods of one queue, however many and whatever they ask, delay those of another queue by a bounded amount of work."""

from collections.abc import Iterator
from random import Random

import pytest
from deviceshare.allocation import Allocator
from deviceshare.model import (
    GroupKey,
    PodFact,
    PodGroupFact,
    PodRequest,
    PodSelection,
    PodTerm,
    PodTopology,
    QueueFact,
    Requirement,
    WeightedPodTerm,
)
from deviceshare.queueing import round_work
from msgspec.structs import replace
from support.builders import ask, cards, container, node, pod, vgpu
from support.played import Played

CROWD, QUEUES = 200, 5
DECIDING = EXPLAINING = 150


@pytest.fixture(autouse=True)
def short_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(round_work, "DECIDING", DECIDING)
    monkeypatch.setattr(round_work, "EXPLAINING", EXPLAINING)


class Counted:
    """How often nodes were looked for, and how often it was diagnosed why there is none."""

    def __init__(self) -> None:
        self.placing = self.explaining = 0


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counted:
    counts = Counted()
    place, why_not = Allocator.place, Allocator.why_not

    def count_place(allocator: Allocator, request: PodRequest):
        counts.placing += 1
        return place(allocator, request)

    def count_diagnosis(allocator: Allocator, request: PodRequest):
        counts.explaining += 1
        return why_not(allocator, request)

    monkeypatch.setattr(Allocator, "place", count_place)
    monkeypatch.setattr(Allocator, "why_not", count_diagnosis)
    return counts


def crowd(kind: str) -> Iterator[PodFact | PodGroupFact]:
    for number in range(CROWD):
        name = f"w{number}"
        match kind:
            case "shapes":
                yield pod(name, ask(container(cpu=1_000_000 + number)))
            case "types":  # of cards that no node has
                yield pod(name, vgpu(1, 10, annotations={"nvidia.com/use-gputype": f"X{number}"}))
            case "gangs":
                yield PodGroupFact(key=GroupKey(f"ns/{name}"), uid=name, min_member=2, admitted=True)
                for at in range(2):
                    yield pod(f"{name}-{at}", vgpu(1, 1000 + number), gang=name)
            case "queues":
                yield replace(pod(name, ask(container(cpu=1_000_000 + number))), queue=f"q{number % QUEUES}")


def cluster(kind: str) -> Played:
    core = Played(*(node(name, cards(2, memory=100)) for name in "abc"))
    for name in ("default", "other", *(f"q{number}" for number in range(QUEUES))):
        core.put(QueueFact(name=name))
    for fact in crowd(kind):
        core.put(fact)
    return core


def in_other_queue(name: str) -> PodFact:
    return replace(pod(name, vgpu(1, 10)), queue="other")


@pytest.mark.parametrize("kind", ["shapes", "types", "gangs", "queues"])
def test_a_pod_of_another_queue_waits_for_one_round(kind: str, counted: Counted) -> None:
    core = cluster(kind)
    for number in range(4):  # with the crowd, and behind the rest of it
        core.put(in_other_queue(f"o{number}"))
        out = core.tick()
        assert f"o{number}" in [claim.name for claim in out.claims]
        assert counted.placing <= DECIDING + QUEUES
        assert counted.explaining <= EXPLAINING / 8 + QUEUES
        counted.placing = counted.explaining = 0
        core.written(out)
    core.put(node("a", cards(2, memory=100), labels={"some": "thing"}), in_other_queue("after"))
    assert "after" in [claim.name for claim in core.tick().claims]


@pytest.mark.parametrize("kind", ["shapes", "types", "gangs", "queues"])
def test_every_pod_is_decided_and_explained_in_later_rounds(kind: str) -> None:
    core, explained, rounds = cluster(kind), set[str](), 0
    while core.core.open_work and (rounds := rounds + 1) < 2 * CROWD:
        out = core.tick(core.due or 0.0)
        explained |= {explanation.uid for explanation in out.explanations}
        core.written(out)
    assert explained == {fact.uid for fact in crowd(kind) if isinstance(fact, PodFact)}
    assert rounds > 3
    assert core.now <= 101.0, "a pause for reasons that have changed, none for what was left"


def test_pods_with_many_terms_count_for_more_than_others() -> None:
    chance = Random(1)
    core = Played(*(node(f"n{at}", labels={"zone": str(at)}) for at in range(3)))
    for name in ("default", "other"):
        core.put(QueueFact(name=name))
    terms = []
    for number in range(300):
        chosen = PodSelection((Requirement("app", "In", (f"a{number}",)),), ("ns",))
        terms.append(WeightedPodTerm(1, PodTerm("zone", chosen)))
    for number in range(40):
        topology = PodTopology("ns", (), preferred=tuple(chance.sample(terms, 200)))
        core.put(pod(f"w{number}", ask(container(cpu=10 + number), topology=topology)))
    core.put(in_other_queue("o"), replace(pod("cpu", ask(container(cpu=1))), queue="other"))
    names = [claim.name for claim in core.tick().claims]
    assert "cpu" in names
    assert 1 < len(names) < 20
