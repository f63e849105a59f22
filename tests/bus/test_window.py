"""Messages are collected for about 0 s when few arrive, and for longer the more arrive, up to a limit."""

import asyncio

import pytest
from deviceshare_bus.cores.window import FULL_RATE, LONGEST, MEMORY, Window
from deviceshare_bus.wire.tasks import Rounds


def rounds(rate: float, seconds: float) -> list[tuple[float, int]]:
    """Return the time of each round, and its messages, where messages arrive at a constant rate."""
    window = Window()
    found: list[tuple[float, int]] = []
    taken, free_at = 0, 0.0
    while True:
        at = max(free_at, (taken + 1) / rate)
        if at > seconds:
            return found
        count = int(at * rate + 1e-6) - taken
        taken += count
        found.append((at, count))
        free_at = at + window.after(at, count)


@pytest.mark.parametrize("rate", [1.0, 10.0, 100.0])
def test_few_messages_do_not_wait(rate: float) -> None:
    assert all(count == 1 for _, count in rounds(rate, 5.0))
    window = Window()
    assert max(window.after(number / rate, 1) for number in range(200)) < 0.06 / rate + 0.0005


def test_the_window_grows_with_the_rate_and_is_limited() -> None:
    apart = []
    for rate in (250.0, 500.0, 1000.0, 2000.0, 8000.0, 100_000.0):
        times = [at for at, _ in rounds(rate, 3.0) if at > 1.0]
        apart.append((times[-1] - times[0]) / (len(times) - 1))
    assert apart[0] == pytest.approx(1 / 250, rel=0.05), "every message has a round of its own"
    assert apart[1:4] == sorted(apart[1:4])
    assert apart[2] == pytest.approx(LONGEST * 1000 / FULL_RATE, rel=0.5)
    assert apart[-2:] == [pytest.approx(LONGEST, rel=0.1)] * 2


@pytest.mark.parametrize(("rate", "apart"), [(1000.0, 0.004), (2000.0, 0.008), (6000.0, 0.024), (50_000.0, 0.024)])
def test_rounds_at_a_high_rate_are_few(rate: float, apart: float) -> None:
    times = [at for at, _ in rounds(rate, 3.0) if at > 1.0]
    assert (times[-1] - times[0]) / (len(times) - 1) == pytest.approx(apart, rel=0.25)


def test_rounds_of_single_messages_are_limited_to_500_a_second() -> None:
    window, now = Window(), 0.0
    for _ in range(1000):
        now += window.after(now, 1)
    began = now
    for _ in range(1000):
        now += window.after(now, 1)
    assert 1000 / (now - began) == pytest.approx(500.0, rel=0.1)


def test_after_a_burst_the_window_closes() -> None:
    window = Window()
    assert window.after(0.0, 10_000) == LONGEST
    assert window.after(10 * MEMORY, 1) < 0.003
    assert window.after(30 * MEMORY, 1) < 0.0001


async def test_a_round_after_a_rest_begins_at_once_and_the_next_ones_are_apart() -> None:
    clock = asyncio.get_running_loop().time
    pace = Rounds()
    began = clock()
    await pace.begin()
    assert clock() - began < 0.005
    pace.took(10_000)
    await pace.begin()
    assert clock() - began >= LONGEST
