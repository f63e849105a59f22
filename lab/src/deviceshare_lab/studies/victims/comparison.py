"""Our victims on random clusters compared with the best ones."""

from collections.abc import Sequence
from itertools import product
from typing import Any, NamedTuple

from deviceshare_cli.output import table

from deviceshare_lab.studies.parallel import run_all
from deviceshare_lab.studies.victims.exact import allowed, best, fit
from deviceshare_lab.studies.victims.random_cluster import GROUP, KINDS, made

MIN_COUNT, MIN_SUM, MAX_MORE = 0.99, 0.97, 1
"""Share of the clusters with the fewest victims, and with the lowest sum of priorities; how many victims more there may
be."""

Answer = tuple[int, int] | None
"""Number of victims, and the sum of their priorities; None: no set is enough."""


class ComparedCluster(NamedTuple):
    """One cluster: our answer, the best one, and what is wrong with our victims, '' if they may go and are enough."""

    seed: int
    kind: str
    ours: Answer
    best: Answer
    wrong: str = ""

    @property
    def missed(self) -> bool:
        """Whether one has an answer, and the other has none."""
        return (self.ours is None) != (self.best is None)

    @property
    def more(self) -> int:
        """How many pods more go than needed."""
        return self.ours[0] - self.best[0] if self.ours and self.best else 0


def compare(seed: int, kind: str) -> ComparedCluster:
    """Compare on one cluster."""
    scene, plain, waiting = made(seed, kind)
    found = scene.preempt(GROUP)
    expected = best(plain, waiting)
    if not found.placed:
        return ComparedCluster(seed, kind, None, expected)
    by_name = {pod.name: pod for pod in plain.pods}
    gone = [by_name[each.pod.name] for each in found.victims]
    wrong = ""
    if not allowed(plain, gone):
        wrong = "they may not be evicted"
    elif not fit(plain, gone, waiting):
        wrong = "they are not enough"
    return ComparedCluster(seed, kind, (len(gone), sum(pod.level for pod in gone)), expected, wrong)


class VictimComparison(NamedTuple):
    """All clusters."""

    compared: Sequence[ComparedCluster]

    @property
    def answered(self) -> list[ComparedCluster]:
        """Those with an answer of both."""
        return [each for each in self.compared if each.ours and each.best]

    @property
    def differing(self) -> list[ComparedCluster]:
        """Those without the best answer."""
        return [each for each in self.compared if each.ours != each.best or each.wrong]

    @property
    def failures(self) -> list[str]:
        """What is not as good as it has to be."""
        answered = self.answered
        found = [f"{each.kind} {each.seed}: {each.wrong}" for each in self.compared if each.wrong]
        found += [f"{each.kind} {each.seed}: {each.ours}, but {each.best}" for each in self.compared if each.missed]
        found += [f"{each.kind} {each.seed}: {each.more} pods more" for each in answered if each.more > MAX_MORE]
        if sum(each.more == 0 for each in answered) < MIN_COUNT * len(answered):
            found.append(f"fewer than {MIN_COUNT:.0%} have the fewest victims")
        if sum(each.ours == each.best for each in answered) < MIN_SUM * len(answered):
            found.append(f"fewer than {MIN_SUM:.0%} have the lowest sum of priorities")
        return found


def compare_all(clusters: int, jobs: int | None) -> VictimComparison:
    """Compare on so many clusters of each kind, ``jobs`` at the same time, None: one for each core."""
    return VictimComparison(run_all(_compare, [*product(range(clusters), KINDS)], jobs))


def _compare(task: tuple[int, str]) -> ComparedCluster:
    return compare(*task)


def report(comparison: VictimComparison) -> dict[str, Any]:
    """Return numbers by kind, and all differences."""
    kinds = {}
    for kind in KINDS:
        of_kind = VictimComparison([each for each in comparison.compared if each.kind == kind])
        answered = of_kind.answered
        kinds[kind] = {
            "clusters": len(of_kind.compared),
            "without_answer": sum(each.best is None for each in of_kind.compared),
            "missed": sum(each.missed for each in of_kind.compared),
            "wrong": sum(bool(each.wrong) for each in of_kind.compared),
            "fewest": sum(each.more == 0 for each in answered),
            "one_more": sum(each.more == 1 for each in answered),
            "several_more": sum(each.more > 1 for each in answered),
            "best": sum(each.ours == each.best for each in answered),
        }
    return {
        "kinds": kinds,
        "failures": comparison.failures,
        "differing": [each._asdict() for each in comparison.differing],
    }


def as_text(shown: dict[str, Any]) -> str:
    """Return the report as text."""
    kinds = shown["kinds"]
    names = [name.upper().replace("_", " ") for name in next(iter(kinds.values()))]
    rows = [[kind, *map(str, numbers.values())] for kind, numbers in kinds.items()]
    lines = [
        f"{each['kind']} {each['seed']}: {each['ours']}, best {each['best']} {each['wrong']}".rstrip()
        for each in shown["differing"]
    ]
    return "\n\n".join(filter(None, ["\n".join(lines), table(("KIND", *names), rows), "\n".join(shown["failures"])]))
