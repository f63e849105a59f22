"""Ranges in which pods start are right as often as they say, on a model of a queue; else a reason why there is none."""

import random
from heapq import heappop, heappush
from math import inf

import pytest
from deviceshare_metrics.core.start_estimates import (
    AT_ONCE,
    COVERAGE,
    INTERVAL,
    MAX_FACTOR,
    MAX_KINDS,
    MAX_OF_OWNER,
    MAX_PROBES,
    MIN_STARTS,
    StartEstimates,
    StartRange,
)


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
                questions.append((clock, uid, found.expected(uid, "ns", clock)))
        if arrives == now:
            waiting.append((number, runs))
            found.wait(str(number), "ns", "kind", now)
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
def test_four_of_five_ranges_that_are_shown_are_right(seed, load):
    questions = asked(seed, load)
    answers = [(expected, waited) for expected, waited in questions if isinstance(expected, StartRange)]
    assert len(answers) > len(questions) / 2
    right = sum(expected.earliest <= waited <= expected.latest for expected, waited in answers) / len(answers)
    assert COVERAGE - 0.05 <= right <= COVERAGE + 0.05
    assert all(expected.latest + 60 <= MAX_FACTOR * (expected.earliest + 60) for expected, _ in answers)


def follow(found: StartEstimates, count: int, *seconds: float, owner: str = "ns", started: bool = True) -> float:
    """Let pods wait so long in turn, one after the other, each probed once when it has waited a second."""
    now = 0.0
    for number in range(count):
        wait = seconds[number % len(seconds)]
        found.wait(f"{owner}-{number}", owner, "kind", now)
        probe_all(found, now + 1.0)
        found.end(f"{owner}-{number}", now + 1.0 + wait, started=started)
        now += max(INTERVAL, wait) + 2.0
    return now


def probe_all(found: StartEstimates, now: float) -> None:
    for _ in range(MAX_KINDS // AT_ONCE + 1):
        found.probe(now)


def waiting(found: StartEstimates, now: float, kind: str = "kind", owner: str = "ns"):
    found.wait("w", owner, kind, now)
    return found.expected("w", owner, now)


def test_pods_that_all_wait_equally_long_have_a_narrow_range():
    found = StartEstimates()
    expected = waiting(found, follow(found, 60, 100.0))
    assert expected.earliest == pytest.approx(expected.latest)
    assert 50.0 < expected.latest < 400.0


@pytest.mark.parametrize(
    ("pods", "started", "kind"), [(MIN_STARTS, True, "kind"), (100, False, "kind"), (100, True, "another")]
)
def test_there_is_no_range_where_few_equal_pods_have_started(pods, started, kind):
    found = StartEstimates()
    assert waiting(found, follow(found, pods, 100.0, started=started), kind) == (
        "too few equal pods have waited and started in its queue"
    )


def test_there_is_no_range_after_a_pause_longer_than_ten_starts_took():
    found = StartEstimates()
    now = follow(found, 60, 100.0)
    assert isinstance(waiting(found, now), StartRange)
    assert isinstance(found.expected("w", "ns", now + 2000.0), StartRange)
    assert found.expected("w", "ns", now + 2400.0) == (
        "no equal pod has started for 40 min, longer than 10 starts took before"
    )
    found.end("w", now + 2400.0, started=False)
    later = now + 100_000.0
    assert isinstance(waiting(found, later), StartRange), "no pod waited meanwhile"


def test_there_is_no_range_that_is_too_wide():
    found = StartEstimates()
    now = follow(found, 60, 5.0, 200_000.0)
    assert waiting(found, now - 1.0).latest < 1_000.0
    assert (
        found.expected("w", "ns", now + 100.0)
        == f"the latest time would be more than {MAX_FACTOR:.0f} times the earliest"
    )


def test_what_pods_of_other_owners_do_changes_no_range():
    alone, beside = StartEstimates(), StartEstimates()
    beside.wait("keep", "ns", "another", 0.0)
    for owner in range(3 * MAX_KINDS // MAX_OF_OWNER):
        for number in range(3 * MAX_OF_OWNER):
            beside.wait(f"{owner}-{number}", f"other-{owner}", number % 2 or "kind", 0.0)
            beside.end(f"{owner}-{number}", float(number), started=True)
        beside.wait(f"{owner}", f"other-{owner}", "kind", 0.0)
    now = follow(alone, 60, 100.0)
    follow(beside, 60, 100.0)
    follow(beside, 30, 5_000.0, owner="other-5")
    assert waiting(beside, now) == waiting(alone, now)


def test_kinds_of_an_owner_are_bounded_and_one_without_waiting_pods_is_forgotten():
    found = StartEstimates()
    found.wait("other", "other", "kind", 0.0)
    found.end("other", 0.0, started=True)
    for number in range(2 * MAX_OF_OWNER):
        found.wait(f"uid-{number}", "ns", number, 0.0)
    assert [f"uid-{number}" in found for number in (0, MAX_OF_OWNER)] == [True, False]
    assert found.expected(f"uid-{MAX_OF_OWNER}", "ns", 1.0) == "too many kinds of pods wait in its namespace"
    found.end("uid-0", 1.0, started=True)
    found.wait("w", "ns", "new", 1.0)
    assert "w" in found
    assert ("other", "kind") in found._kinds


def test_kinds_are_bounded_and_the_one_for_the_longest_time_without_waiting_pods_is_forgotten():
    found = StartEstimates()
    now = follow(found, 60, 100.0)
    follow(found, 60, 100.0, owner="idle longer")
    found.wait("ns-last", "ns", "kind", now)
    found.end("ns-last", now, started=True)
    for number in range(MAX_KINDS - 1):
        found.wait(f"uid-{number}", f"owner-{number}", "kind", now)
    assert isinstance(waiting(found, now), StartRange)
    assert ("idle longer", "kind") not in found._kinds
    found.wait("late", "late", "kind", now)
    assert found.expected("late", "late", now) == "too many kinds of pods wait in all namespaces together"
    found.end("uid-0", now, started=False)
    found.wait("late", "late", "kind", now)
    assert "late" in found
    assert len(found._kinds) == MAX_KINDS == found._number.total()
    assert len(found._number) == MAX_KINDS


def test_probes_are_bounded_and_those_of_a_pod_end_with_it():
    found = StartEstimates()
    now = follow(found, 60, 100.0)
    found.wait("w", "ns", "kind", now)
    for at in range(MAX_PROBES + 50):
        found.probe(now + at * INTERVAL)
    (kind,) = found._kinds.values()
    assert len(kind.probes) == MAX_PROBES
    assert {each.uid for each in kind.probes} == {"w"}
    found.end("w", now + 1e6, started=True)
    assert all(each.started for each in kind.probes)


@pytest.mark.parametrize("apart", [0.0, 1.0])
def test_pods_of_a_gang_that_start_together_have_ranges_that_are_right(apart):
    rng, found, gangs, asked, started, now = random.Random(1), StartEstimates(), [], [], {}, 0.0
    for number in range(1000):
        gang = [f"{number}-{pod}" for pod in range(16)]
        for uid in gang:
            found.wait(uid, "ns", "kind", now)
        gangs.append(gang)
        if number < 20:
            continue
        ends = now + rng.uniform(300.0, 900.0)
        while now + 60.0 < ends:
            now += 60.0
            found.probe(now)
            uid = rng.choice(rng.choice(gangs))
            asked.append((uid, now, found.expected(uid, "ns", now)))
        for at, uid in enumerate(gangs.pop(0)):
            started[uid] = ends + at * apart
            found.end(uid, started[uid], started=True)
        now = ends + 15 * apart
    asked = [each for each in asked if each[0] in started]
    answers = [(expected, started[uid] - at) for uid, at, expected in asked if isinstance(expected, StartRange)]
    assert len(answers) > len(asked) * 0.9
    right = sum(expected.earliest <= waited <= expected.latest for expected, waited in answers) / len(answers)
    assert right >= COVERAGE - 0.05, right


def test_open_probes_are_those_without_an_end_of_the_pods_that_wait():
    rng, found = random.Random(2), StartEstimates()
    found.wait("0", "ns", "kind", 0.0)
    found.end("0", 1.0, started=True)
    found.wait("long", "ns", "kind", 1.0)
    (kind,), waits, forgotten = found._kinds.values(), {"long"}, False
    for number in range(1, 2 * MAX_PROBES):
        found.wait(str(number), "ns", "kind", number * INTERVAL)
        waits.add(str(number))
        found.probe(number * INTERVAL + 1.0)
        if len(waits) > 3:
            uid = rng.choice(sorted(waits - {"long"}))
            waits.remove(uid)
            found.end(uid, number * INTERVAL + 2.0, started=rng.random() < 0.5)
        brute = [each for each in kind.probes if each.ended is None]
        assert sorted((each.uid, each.at) for each in brute) == sorted(
            (each.uid, each.at) for probes in kind.open.values() for each in probes
        )
        assert {each.uid for each in brute} <= waits
        forgotten |= len(kind.probes) == MAX_PROBES
    assert forgotten
    found.end("long", 1e6, started=True)
    assert "long" not in kind.open
