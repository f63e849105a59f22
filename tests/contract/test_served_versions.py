"""A kind that servers have in different versions is followed in the newest that there is, also when that changes."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any, cast

from deviceshare_cluster.interface import ChangeType
from deviceshare_cluster.kube.client import ApiRefusal, KubeClient, Query
from deviceshare_cluster.kube.follow import INITIAL_EVENTS_END, ObjectWatch, Patience

GROUP = "resource.k8s.io"
RULE = {"metadata": {"name": "r", "resourceVersion": "5"}}


class Server:
    """It has one rule, in some versions; without ``watch_list`` it gives it in a list, and watches deliver nothing."""

    def __init__(self, *versions: str, watch_list: bool = True) -> None:
        self.versions = versions
        self._watch_list = watch_list
        self.asked: list[str] = []
        self.ended, self.watched = asyncio.Event(), asyncio.Event()

    @asynccontextmanager
    async def stream(self, path: str, query: Query, *_: Any) -> AsyncIterator["Server"]:
        self._ask(path)
        if not self._watch_list and ("sendInitialEvents", "true") in query:
            raise ApiRefusal(422, "Invalid", "sendInitialEvents is forbidden")
        self.ended.clear()
        self._unread = self._watch_list
        self.watched.set()
        yield self

    async def request(self, _method: str, path: str, _query: Query) -> bytes:
        self._ask(path)
        return json.dumps({"metadata": {"resourceVersion": "7"}, "items": [RULE]}).encode()

    def _ask(self, path: str) -> None:
        version = path.split("/")[3]
        assert path == f"/apis/{GROUP}/{version}/devicetaintrules"
        self.asked.append(version)
        if version not in self.versions:
            raise ApiRefusal(404, "NotFound", "404 page not found")

    async def readany(self) -> bytes:
        if not self._unread:
            await self.ended.wait()
            raise ApiRefusal(404, "NotFound", "404 page not found")
        self._unread = False
        end = {"metadata": {"resourceVersion": "7", "annotations": {INITIAL_EVENTS_END: "true"}}}
        lines = {"type": "ADDED", "object": RULE}, {"type": "BOOKMARK", "object": end}
        return "".join(f"{json.dumps(each)}\n" for each in lines).encode()


async def test_a_kind_is_followed_in_the_version_that_a_server_has() -> None:
    server = Server("v1alpha3")
    watch = ObjectWatch(cast(KubeClient, server), "DeviceTaintRule", patience=Patience(absent=0.0))
    async with asyncio.timeout(30), aclosing(watch.updates()) as updates:
        assert [each.name for each in (await anext(updates)).changes] == ["r"]
        assert server.asked == ["v1", "v1beta2", "v1alpha3"]
        server.versions, server.asked = ("v1",), []
        server.ended.set()
        assert (await anext(updates)).changes == [], "the rule is the same: it was never gone"
        assert server.asked == ["v1"]
        server.versions = ()
        server.ended.set()
        assert [each.type for each in (await anext(updates)).changes] == [ChangeType.DELETED]
        server.versions = ("v1beta2",)
        await anext(updates)
        assert server.asked[-1] == "v1beta2"


async def test_objects_do_not_vanish_with_a_version_that_was_listed_and_did_not_change() -> None:
    server = Server("v1alpha3", watch_list=False)
    watch = ObjectWatch(cast(KubeClient, server), "DeviceTaintRule", patience=Patience(absent=0.0))
    async with asyncio.timeout(30), aclosing(watch.updates()) as updates:
        assert [each.name for each in (await anext(updates)).changes] == ["r"]
        following = asyncio.ensure_future(anext(updates))
        await server.watched.wait()
        server.versions = ("v1",)
        server.ended.set()
        assert (await following).changes == []
        assert server.asked[-1] == "v1"
