"""How long computed answers are kept."""

import asyncio
import re
import weakref
from pathlib import Path

import pytest
from deviceshare_metrics import queries
from deviceshare_metrics.core import StateStore
from deviceshare_metrics.queries import Computed
from support.waiting import until


class Value:
    """What may be large."""


async def test_concurrent_users_have_one_value_and_it_is_released_afterwards(monkeypatch):
    monkeypatch.setattr(queries, "KEEP", 3600.0)

    async def compute(store: StateStore) -> Value:
        return Value()

    computed = Computed(StateStore(), compute)
    assert await computed.get() is await computed.get()
    monkeypatch.setattr(queries, "KEEP", 0.0)
    kept = weakref.ref(await computed.get())
    await until(lambda: kept() is None)
    assert isinstance(await computed.get(), Value), "it is computed again"


async def test_a_value_that_is_asked_for_again_is_not_released_by_the_earlier_request(monkeypatch):
    computed = Computed(StateStore(), lambda store: asyncio.sleep(0, Value()))
    monkeypatch.setattr(queries, "KEEP", 0.0)
    first = await computed.get()
    monkeypatch.setattr(queries, "KEEP", 3600.0)
    assert await computed.get() is first
    for _ in range(3):  # the earlier timer would run
        await asyncio.sleep(0)
    assert await computed.get() is first


async def test_memory_is_returned_once_for_values_that_are_released_together(monkeypatch):
    done, returned = asyncio.Event(), []
    monkeypatch.setattr(queries, "KEEP", 0.0)
    monkeypatch.setattr(queries, "RETURN", 0.0)
    monkeypatch.setattr(queries, "return_memory", lambda: (returned.append(True), done.set()))
    values = [Computed(StateStore(), lambda store: asyncio.sleep(0, Value())) for _ in range(3)]
    await asyncio.gather(*(value.get() for value in values))
    await done.wait()
    for _ in range(5):  # others would follow at once
        await asyncio.sleep(0)
    assert len(returned) == 1


@pytest.mark.parametrize(("script", "name"), [("main.js", "REFRESH"), ("overview.js", "SIDE")])
def test_a_value_is_kept_until_an_open_dashboard_asks_again(script, name):
    text = (Path(queries.__file__).parent / "static" / script).read_text()
    (milliseconds,) = re.findall(rf"^const {name} = (\d+);", text, re.MULTILINE)
    assert int(milliseconds) < queries.KEEP * 1000
