"""The checker of the runs on a real API server finds violations."""

import asyncio
from collections.abc import AsyncIterator
from copy import deepcopy
from typing import Any

from deviceshare_lab.checker.cards import Parts
from support import manifests
from support.history import Asked, History, bound_more_than_once

NODE = manifests.node(0)
CARD = "GPU-00000-0"


class ScriptedServer:
    """An API server that sends the events of a test, with a pause between two events."""

    def __init__(self, *events: tuple[str, Any]) -> None:
        self._events = events

    async def request(self, method: str, path: str) -> Any:
        assert path == "/api/v1/nodes/node-00000"
        return NODE

    async def follow(self, path: str) -> AsyncIterator[tuple[str, Any]]:
        for event in self._events:
            yield event
            await asyncio.sleep(0.02)


def pod(name: str, memory: int, phase: str = "Pending", node: str = "node-00000", card: str = CARD) -> Any:
    made = manifests.pod(0, group="gang")
    made["metadata"] |= {"name": name, "uid": name}
    made["metadata"]["annotations"]["volcano.sh/vgpu-ids-new"] = f"{card},NVIDIA,{memory},0:"
    made["spec"]["nodeName"] = node
    return made | {"status": {"phase": phase}}


def waiting(name: str) -> Any:
    made = deepcopy(pod(name, 0))
    del made["spec"]["nodeName"]
    return made


def listed(*pods: Any) -> tuple[str, Any]:
    return "LISTED", {"items": list(pods)}


async def judged(*events: tuple[str, Any], minimum: int = 1) -> History:
    judge = History(ScriptedServer(*events), Parts())  # type: ignore[arg-type]
    judge.gang(manifests.pod_group("gang", minimum))
    async with judge:
        await judge._task
    return judge


async def test_a_valid_history_has_no_violations() -> None:
    bound, runs, ended = pod("a", 80000), pod("a", 80000, "Running"), pod("a", 80000, "Succeeded")
    events = [listed(), ("ADDED", waiting("a")), ("MODIFIED", bound), ("MODIFIED", runs), ("MODIFIED", ended)]
    judge = await judged(*events, ("MODIFIED", pod("b", 80000)), ("DELETED", pod("b", 80000)), ("ADDED", pod("c", 9)))
    assert (judge.wrong, judge.bindings, judge.gaps) == ([], 3, 0)


async def test_a_card_that_gave_too_much_for_a_moment() -> None:
    judge = await judged(
        listed(),
        ("MODIFIED", pod("a", 80000)),
        ("MODIFIED", pod("b", 80000)),
        ("DELETED", pod("b", 80000)),
    )
    assert judge.wrong == [f"node-00000 {CARD}: 160000 MiB of 81920"]


async def test_a_pod_that_gets_other_devices_later() -> None:
    judge = await judged(listed(), ("MODIFIED", pod("a", 8)), ("MODIFIED", pod("a", 8, card="GPU-00000-1")))
    (wrong,) = judge.wrong
    assert wrong.startswith("default/a was bound as")


async def test_how_long_a_gang_was_torn() -> None:
    half = await judged(listed(), ("MODIFIED", pod("a", 8)), minimum=2)
    assert half.torn() == {"default/gang": float("inf")}
    later = await judged(
        listed(), ("MODIFIED", pod("a", 8)), ("ADDED", waiting("b")), ("MODIFIED", pod("b", 8)), minimum=2
    )
    assert 0.03 < later.torn()["default/gang"] < 10
    assert (await judged(listed(), ("ADDED", waiting("b")), minimum=2)).torn() == {}


async def test_changes_during_a_gap_in_the_watch_are_inferred_from_the_new_list() -> None:
    judge = await judged(listed(), ("ADDED", pod("a", 80000)), listed(pod("b", 80000)), ("ADDED", pod("b", 80000)))
    assert (judge.wrong, judge.gaps) == ([], 1)


def test_a_pod_that_was_bound_twice() -> None:
    once = Asked("binder", "create", "pods/binding default/a", 201, "")
    refused = once._replace(code=409)
    assert bound_more_than_once([once, refused, once._replace(what="pods/binding default/b")]) == []
    assert bound_more_than_once([once, refused, once]) == ["pods/binding default/a: 2 times"]
