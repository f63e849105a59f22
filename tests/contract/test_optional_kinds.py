"""A kind that the API server may not have goes and comes back with its objects; an error of a watch loses no change."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

import pytest
from deviceshare_cluster.interface import ChangeType
from deviceshare_cluster.kube.client import ApiRefusal
from deviceshare_cluster.kube.follow import ObjectWatch, Patience
from support.waiting import until

END = {"annotations": {"k8s.io/initial-events-end": "true"}}


def line(kind: str, name: str, revision: int, **metadata) -> bytes:
    found = {"metadata": {"name": name, "resourceVersion": str(revision), **metadata}}
    return json.dumps({"type": kind, "object": found}).encode() + b"\n"


class Answer:
    """The lines of a watch, after which it ends."""

    def __init__(self, *lines: bytes) -> None:
        self._lines = list(lines)

    async def readany(self) -> bytes:
        return self._lines.pop(0) if self._lines else b""


class Server:
    """Gives the answers to watches one after the other, and the last one to all later ones."""

    def __init__(self, *answers: Answer | ApiRefusal) -> None:
        self._answers = list(answers)
        self.queries: list[dict[str, str]] = []

    @asynccontextmanager
    async def stream(self, path: str, query: Sequence[tuple[str, str]], silence: float) -> AsyncIterator[Answer]:
        self.queries.append(dict(query))
        answer = self._answers.pop(0) if self._answers else ApiRefusal(404, "NotFound", "the end")
        if isinstance(answer, ApiRefusal):
            raise answer
        yield answer


async def seen(server: Server, kind: str = "Queue") -> list[list[str]]:
    """Follow until the server has given all of its answers; return the updates."""
    watch = ObjectWatch(server, kind, patience=Patience(silence=1.0, absent=0.01))
    updates = []

    async def follow() -> None:
        async for update in watch.updates():
            words = [f"{'+' if each.type is ChangeType.APPLIED else '-'}{each.name}" for each in update.changes]
            updates.append(words + ["listed"] * update.listed)

    task = asyncio.create_task(follow())
    await until(lambda: not server._answers)
    await asyncio.sleep(0.1)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    return updates


GONE = ApiRefusal(404, "NotFound", "the server could not find the requested resource")


async def test_objects_of_a_kind_that_vanishes_and_returns_come_again_though_their_revisions_are_the_same() -> None:
    everything = [line("ADDED", "a", 5), line("ADDED", "b", 6), line("BOOKMARK", "", 7, **END)]
    server = Server(Answer(*everything), GONE, Answer(*everything))
    updates = [update for update in await seen(server) if update != ["listed"]]
    assert updates == [["+a", "+b", "listed"], ["-a", "-b", "listed"], ["+a", "+b", "listed"], ["-a", "-b", "listed"]]
    assert [query.get("sendInitialEvents") for query in server.queries[:3]] == ["true", None, "true"]


async def test_after_a_list_that_is_the_same_nothing_comes_again() -> None:
    expired = ApiRefusal(410, "Expired", "too old")
    everything = [line("ADDED", "a", 5), line("BOOKMARK", "", 7, **END)]
    less = [line("ADDED", "b", 8), line("BOOKMARK", "", 9, **END)]
    updates = await seen(Server(Answer(*everything), expired, Answer(*everything), expired, Answer(*less)))
    assert updates[:3] == [["+a", "listed"], ["listed"], ["-a", "+b", "listed"]]


@pytest.mark.parametrize("kind", ["Node", "Pod"])
async def test_a_kind_that_every_server_has_is_not_taken_for_gone(kind) -> None:
    everything = [line("ADDED", "a", 5), line("BOOKMARK", "", 7, **END)]
    updates = await seen(Server(Answer(*everything), GONE), kind)
    assert updates == [["+a", "listed"]]


EXPIRED = json.dumps({"type": "ERROR", "object": {"code": 410, "message": "too old"}}).encode() + b"\n"


@pytest.mark.parametrize("error", [EXPIRED, b'{"type": "ADDED", "object": 1}\n'], ids=["expired", "malformed"])
async def test_changes_that_arrive_together_with_an_error_are_delivered(error) -> None:
    """A new list says nothing of them: it has the revisions that the watch has delivered already."""
    everything = [line("ADDED", "a", 5), line("ADDED", "b", 6), line("BOOKMARK", "", 7, **END)]
    together = line("MODIFIED", "a", 8) + line("DELETED", "b", 9) + error
    again = [line("ADDED", "a", 8), line("BOOKMARK", "", 10, **END)] if error is EXPIRED else []
    server = Server(Answer(*everything), Answer(together), Answer(*again))
    assert (await seen(server))[:2] == [["+a", "+b", "listed"], ["+a", "-b"]]
    assert server.queries[2].get("resourceVersion") == (None if error is EXPIRED else "9")
