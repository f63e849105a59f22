"""Watches that are merged wait for their reader when the objects of their updates are large, and collect small ones."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import pytest
from deviceshare_cluster import merging
from deviceshare_cluster.interface import Change, ChangeType
from deviceshare_cluster.merging import FULL_UPDATE, Update, merge
from deviceshare_lab.world.virtual_time import run

COUNT = 50


async def test_sources_wait_while_large_objects_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merging, "WATCH_BYTES", 1000)
    made = 0

    async def source() -> AsyncGenerator[Update, None]:
        nonlocal made
        for number in range(COUNT):
            made += 1
            yield Update([Change(ChangeType.APPLIED, "Pod", "ml", f"p{number}", number, b"x" * 400)], number)

    seen = 0
    async with aclosing(merge([source()], max, limit=1000)) as batches:
        async for batch in batches:
            seen += len(batch)
            before = made
            for _ in range(1000):  # a source that does not wait would make all of its updates meanwhile
                await asyncio.sleep(0)
            assert made - seen <= 3
            assert made >= before
            if seen == COUNT:
                break
    assert made == COUNT


WINDOW = 0.25
EACH = 1 / 64
"""Seconds between two changes, a fraction that floats hold."""


class Changing:
    """A source whose objects change regularly while it is not read, as those of a watch."""

    def __init__(self, count: int, size: int = 1) -> None:
        self._count, self._raw = count, b"x" * size
        self.batches: list[int] = []
        """How many changes each batch had."""
        self.late = 0.0
        """Seconds from a change until it was delivered, at most."""

    async def updates(self) -> AsyncGenerator[Update, None]:
        clock = asyncio.get_running_loop().time
        yield Update([], 0, listed=True)
        began, sent = clock(), 0
        while sent < self._count:
            await asyncio.sleep(max(0.0, began + EACH * (sent + 1) - clock()))
            due = min(self._count, int((clock() - began) / EACH))
            made = [
                Change(ChangeType.APPLIED, "Pod", "ml", f"p{number}", number, self._raw) for number in range(sent, due)
            ]
            self.late = max(self.late, clock() - (began + EACH * (sent + 1)))
            sent = due
            yield Update(made, sent)

    async def follow(self, window: float) -> None:
        seen = 0
        async with aclosing(merge([self.updates()], max, 1000, window)) as batches:
            async for batch in batches:
                changes = [item for item in batch if isinstance(item, Change)]
                assert [change.revision for change in changes] == list(range(seen, seen + len(changes)))
                seen += len(changes)
                self.batches += [len(changes)] if changes else []
                if seen == self._count:
                    return


@pytest.mark.parametrize(("window", "size", "together"), [(0.0, 1, 1), (WINDOW, 1, 16), (WINDOW, FULL_UPDATE, 1)])
def test_changes_are_collected_within_the_window_unless_they_are_large(window: float, size: int, together: int) -> None:
    source = Changing(COUNT, size)
    run(lambda: source.follow(window), seed=1)
    assert sum(source.batches) == COUNT
    # The first ones come after a pause, and the last one is what is left.
    assert source.batches[0] == 1
    assert set(source.batches[2:-1]) == {together}
    assert source.late < together * EACH
