"""The order in which the pods of a trace arrive, until they request a given load.

The protocol is that of "Beware of Fragmentation" (USENIX ATC 2023): a random permutation of all pods, followed by
pods drawn with replacement until the load is reached; of a trace that requests more, random pods are left out.
"""

import random
from pathlib import Path
from typing import NamedTuple

from deviceshare_cli.errors import CommandError
from deviceshare_cli.simulate.options import parse_number

from deviceshare_lab.studies.trace.reading import read_text
from deviceshare_lab.traces import Trace

_FILE = "openb_pod_list_{}_{}.txt"


class Arrivals(NamedTuple):
    """The pods that arrive, by index in the trace, and the rank of each node: ties go to the lowest."""

    pods: tuple[int, ...]
    ranks: tuple[int, ...]


def draw(trace: Trace, load: float, seed: int) -> Arrivals:
    """Draw arrivals; ``load`` is the requested share of all cards."""
    chance = random.Random(seed)  # noqa: S311 - repeatable, not secret
    by_name = sorted(range(len(trace.pods)), key=lambda at: trace.pods[at].name)
    pods = list(by_name)
    chance.shuffle(pods)
    target = load * trace.milli
    total = sum(pod.milli for pod in trace.pods)
    if total < target and total:
        while True:
            at = chance.choice(by_name)
            if total + trace.pods[at].amount > target:
                break
            pods.append(at)
            total += trace.pods[at].milli
    while total > target:
        total -= trace.pods[pods.pop(chance.randrange(len(pods)))].milli
    ranks = list(range(len(trace.nodes)))
    chance.shuffle(ranks)
    return Arrivals(tuple(pods), tuple(ranks))


def read_order(directory: Path, trace: Trace, load: float, seed: int) -> Arrivals:
    """Read recorded arrivals, until they request a load. Raises CommandError.

    The first line of a file has indices of lines of the trace, the second line the ranks of the nodes by name.
    """
    file = directory / _FILE.format(trace.workload, seed)
    lines = read_text(file).splitlines()
    if len(lines) != 2:
        raise CommandError(f"{file}: {len(lines)} lines: must be 2, the indices of pods and the ranks of nodes")
    pods = _numbers(file, 1, lines[0], len(trace.pods))
    ranks = _numbers(file, 2, lines[1], len(trace.nodes))
    if sorted(ranks) != list(range(len(trace.nodes))):
        expected = f"each number from 0 to {len(trace.nodes) - 1} once, for each node"
        raise CommandError(f"{file}:2: {len(ranks)} ranks of nodes: must be {expected}")
    return Arrivals(_until(trace, pods, load), ranks)


def _until(trace: Trace, pods: tuple[int, ...], load: float) -> tuple[int, ...]:
    """Return the pods before the first one that exceeds a load, by the rule of :func:`draw`."""
    target = load * trace.milli
    total = 0
    for number, at in enumerate(pods):
        if total + trace.pods[at].amount > target:
            return pods[:number]
        total += trace.pods[at].milli
    return pods


def _numbers(file: Path, line: int, text: str, below: int) -> tuple[int, ...]:
    found = []
    for number, word in enumerate(text.split(), 1):
        at = parse_number(word)
        if at is None or at >= below:
            expected = f"a whole number from 0 to {below - 1}"
            raise CommandError(f"{file}:{line}: number {number}: {word!r}: must be {expected}")
        found.append(at)
    return tuple(found)
