"""Watches that are merged wait for their reader when the objects of their updates are large."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import pytest
from deviceshare_cluster import merging
from deviceshare_cluster.interface import Change, ChangeType
from deviceshare_cluster.merging import Update, merge

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
