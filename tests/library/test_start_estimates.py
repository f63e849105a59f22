"""Ranges in which waiting pods start are right as often as they say, on queues of random pods and changing load."""

import random
from heapq import heappop, heappush
from math import inf

import pytest
from deviceshare_lab.studies.trace import start_estimates
from deviceshare_lab.studies.trace.start_estimates import COVERAGE, INTERVAL, StartEstimates


def arrivals(rng: random.Random, seconds: float, load: float):
    """Yield pods of a queue in front of 20 places; the load rises and falls slowly, lifetimes differ greatly."""
    now = 0.0
    while now < seconds:
        busy = load * (0.7 if (now // 200_000) % 2 else 1.1)
        now += rng.expovariate(20 * busy / 3000)
        yield now, min(rng.lognormvariate(7.2, 1.3), 40_000.0)


def asked(seed: int, load: float, seconds: float = 1_500_000.0):
    """Return (range, seconds until the start) of pods that wait, asked at regular times."""
    rng = random.Random(seed)
    found, waiting, ending, questions, started = StartEstimates(), [], [], [], {}
    plan = iter([*arrivals(rng, seconds, load), (inf, 0.0)])
    (arrives, runs), number, clock = next(plan), 0, 0.0
    while min(arrives, ending[0] if ending else inf) < inf:
        now = min(arrives, ending[0] if ending else inf)
        while clock + 240.0 <= now:
            clock += 240.0
            found.probe(clock)
            if waiting and clock < seconds:
                uid = str(rng.choice(waiting)[0])
                questions.append((clock, uid, found.expected(uid, clock)))
        if arrives == now:
            waiting.append((number, runs))
            found.wait(str(number), "kind", now)
            (arrives, runs), number = next(plan), number + 1
        else:
            heappop(ending)
        while waiting and len(ending) < 20:
            # Mostly first come, first served.
            uid, lifetime = waiting.pop(0 if rng.random() < 0.8 else rng.randrange(len(waiting)))
            heappush(ending, now + lifetime)
            started[str(uid)] = now
            found.end(str(uid), now, started=True)
    return [(expected, started[uid] - at) for at, uid, expected in questions]


@pytest.mark.parametrize(("seed", "load"), [(1, 0.9), (3, 1.0)])
def test_four_of_five_ranges_are_right(seed, load):
    answers = [(expected, waited) for expected, waited in asked(seed, load) if expected is not None]
    assert len(answers) > 2_000
    right = sum(expected.earliest <= waited <= expected.latest for expected, waited in answers) / len(answers)
    assert COVERAGE - 0.05 <= right <= COVERAGE + 0.05


def follow(found: StartEstimates, count: int, seconds: float, *, started: bool) -> float:
    """Let pods wait one after the other, each probed once when it has waited a second."""
    now = 0.0
    for number in range(count):
        found.wait(str(number), "kind", now)
        found.probe(now + 1.0)
        found.end(str(number), now + 1.0 + seconds, started=started)
        now += max(INTERVAL, seconds) + 2.0
    return now


def test_there_is_no_range_without_enough_pods_that_have_started():
    found = StartEstimates()
    now = follow(found, 20, 100.0, started=True)
    found.wait("w", "kind", now)
    assert found.expected("w", now) is None
    assert found.expected("unknown", now) is None
    gone = StartEstimates()
    now = follow(gone, 100, 100.0, started=False)
    gone.wait("w", "kind", now)
    assert gone.expected("w", now) is None


def test_pods_that_all_wait_equally_long_have_a_narrow_range():
    found = StartEstimates()
    now = follow(found, 60, 100.0, started=True)
    found.wait("w", "kind", now)
    found.wait("other", "another kind", now)
    expected = found.expected("w", now)
    assert expected.earliest == pytest.approx(expected.latest)
    assert found.expected("other", now) is None


def test_the_latest_time_is_open_while_pods_that_waited_longer_have_not_started():
    found = StartEstimates()
    now = follow(found, 40, 100.0, started=True)
    for number in range(40):
        found.wait(f"long-{number}", "kind", now)
    for _ in range(40):
        now += INTERVAL
        found.probe(now)
    assert found.expected("long-0", now).latest == inf


def test_kinds_are_bounded_and_those_without_waiting_pods_are_forgotten():
    found = StartEstimates()
    for number in range(2 * start_estimates._MAX_KINDS):
        found.wait(f"uid-{number}", number, 0.0)
    assert [f"uid-{number}" in found for number in (0, start_estimates._MAX_KINDS)] == [True, False]
    found.end("uid-0", 1.0, started=True)
    found.wait("w", "new", 1.0)
    assert "w" in found
    assert len(found._kinds) == start_estimates._MAX_KINDS


def test_probes_and_those_that_have_not_ended_are_bounded():
    found = StartEstimates()
    for number in range(3):
        found.wait(str(number), "kind", 0.0)
    for at in range(20):
        found.wait(f"s{at}", "kind", 0.0)
        found.end(f"s{at}", 100.0 + at, started=True)
    for at in range(start_estimates._PROBES + 50):
        found.probe(200.0 + at * INTERVAL)
    (kind,) = found._kinds.values()
    assert len(kind.probes) == sum(map(len, kind.open.values())) == start_estimates._PROBES
