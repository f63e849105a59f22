"""``deviceshare lab chaos --simulated``: histories, one after the other, until enough virtual time has passed."""

import gc
import sys
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from typing import NamedTuple

from deviceshare_bus.runtime.garbage import uncollected
from deviceshare_cli.errors import CommandError

from deviceshare_lab.chaos import faults
from deviceshare_lab.chaos.apart import run_apart
from deviceshare_lab.chaos.minimise import minimise
from deviceshare_lab.chaos.scenario import Scenario
from deviceshare_lab.chaos.simulation import Played, draw, play

BATCH = 5
"""Histories that a child process plays: with more of them their memory, which is not given back, slows it."""
REPORT = 100
"""Histories between two lines that say how far it is."""


class Options(NamedTuple):
    """What to play: ``fault_names`` None for all, ``size`` None for all sizes, mostly small ones."""

    replicas: Mapping[str, int]
    fault_names: tuple[str, ...] | None
    size: str | None = None

    def draw(self, seed: str) -> Scenario:
        """Draw the scenario of a seed."""
        return draw(seed, self.replicas, self.fault_names, self.size)


class Tally(NamedTuple):
    """The sum of some histories: virtual seconds, CPU seconds, and the seeds of those that broke a rule."""

    histories: int
    seconds: float
    broken: tuple[str, ...]
    cpu: float


def parse_faults(text: str) -> tuple[str, ...]:
    """Return the faults of a list of names, or all of them for ``all``. Raises CommandError."""
    names = tuple(sorted(faults.FAULTS)) if text == "all" else tuple(filter(None, text.split(",")))
    if unknown := sorted(set(names) - faults.FAULTS.keys()):
        raise CommandError(f"--faults: there is no {', '.join(unknown)}; expected {', '.join(sorted(faults.FAULTS))}")
    return names


def play_all(seeds: Sequence[str], options: Options) -> Tally:
    """Play the histories of some seeds."""
    seconds, broken = 0.0, []
    began = time.process_time()
    with uncollected():
        for seed in seeds:
            played = play(options.draw(seed))
            seconds += played.seconds
            if played.violation is not None:
                broken.append(seed)
    return Tally(len(seeds), seconds, tuple(broken), time.process_time() - began)


def _begin_worker() -> None:
    """Play a history in a worker, so that its children need not import and prepare what the first one does."""
    play(draw("warm", {}, (), "small"))
    gc.freeze()


def _seeds(seed: int) -> Iterator[list[str]]:
    number = 0
    while True:
        yield [f"{seed}.{number + each}" for each in range(BATCH)]
        number += BATCH


def simulated(
    seed: str, hours: float, histories: int | None, options: Options, jobs: int, *, verbose: bool = False
) -> int:
    """Play histories and print the violations and a summary; return the exit status, 1 after a violation.

    The output is the same for the same arguments; how long it took is printed to stderr.

    Args:
        seed: a number, from which the seeds of histories are derived, or the seed of one history, ``NUMBER.NUMBER``.
        hours: virtual hours to play, at least.
        histories: the number of histories to play instead, rounded up to :data:`BATCH`.
        options: what to play.
        jobs: processes that play histories.
        verbose: print the text of a single history.
    """
    began = time.monotonic()
    if "." in seed:
        if verbose:
            print(play(options.draw(seed)).text)
        tally = play_all([seed], options)
    else:
        tally = _play_until(int(seed), hours, histories, options, jobs)
    for broken in tally.broken[:1]:
        _show(play(options.draw(broken)))
    elapsed = max(1e-9, time.monotonic() - began)
    virtual = tally.seconds / 3600.0
    pace = tally.seconds / max(1e-9, tally.cpu)
    print(f"{elapsed:.1f} s, {tally.cpu:.0f} s of CPU, {pace:.0f} times real time on one core", file=sys.stderr)
    seeds = f": seeds {', '.join(tally.broken[:20])}" if tally.broken else ""
    print(f"{tally.histories} histories, {virtual:.2f} simulated hours, {len(tally.broken)} violations{seeds}")
    return 1 if tally.broken else 0


def _play_until(seed: int, hours: float, histories: int | None, options: Options, jobs: int) -> Tally:
    """Play batches of histories in several processes until a rule is broken or enough was played."""
    played, seconds, cpu = 0, 0.0, 0.0
    broken: list[str] = []
    running: deque[Future[Tally]] = deque()
    batches = _seeds(seed)

    def enough() -> bool:
        return bool(broken) or (played >= histories if histories is not None else seconds >= hours * 3600.0)

    with ProcessPoolExecutor(jobs, initializer=_begin_worker) as pool:
        while not enough():
            while len(running) < jobs + 1 and (histories is None or played + len(running) * BATCH < histories):
                running.append(pool.submit(run_apart, play_all, next(batches), options))
            tally = running.popleft().result()
            played, seconds, cpu = played + tally.histories, seconds + tally.seconds, cpu + tally.cpu
            broken += tally.broken
            if not played % REPORT:
                print(f"{played} histories, {seconds / 3600.0:.1f} simulated hours", file=sys.stderr)
        pool.shutdown(cancel_futures=True)
    return Tally(played, seconds, tuple(broken), cpu)


def _show(found: Played) -> None:
    """Print a violation with its seed and its shortest history."""
    assert found.violation is not None
    print(f"seed {found.scenario.seed}: violation at {found.violation.at:.3f} s: {found.violation.rule}")
    print(found.violation.text)
    shortest = minimise(found, play)
    assert shortest.violation is not None
    print(f"\nthe shortest history found, {len(shortest.scenario.steps)} of {len(found.scenario.steps)} steps:\n")
    print(shortest.text)
    print(f"violation at {shortest.violation.at:.3f} s: {shortest.violation.rule}: {shortest.violation.text}\n")
