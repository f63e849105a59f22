"""A kind that servers have in different versions is followed in the newest that there is, also when that changes."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any, cast

from deviceshare_cluster.interface import ChangeType
from deviceshare_cluster.kube.client import ApiRefusal, KubeClient
from deviceshare_cluster.kube.follow import INITIAL_EVENTS_END, ObjectWatch, Patience

GROUP = "resource.k8s.io"


class Server:
    """It has one rule, in some versions."""

    def __init__(self, *versions: str) -> None:
        self.versions = versions
        self.asked: list[str] = []
        self.ended = asyncio.Event()

    @asynccontextmanager
    async def stream(self, path: str, *_: Any) -> AsyncIterator["Server"]:
        version = path.split("/")[3]
        assert path == f"/apis/{GROUP}/{version}/devicetaintrules"
        self.asked.append(version)
        if version not in self.versions:
            raise ApiRefusal(404, "NotFound", "404 page not found")
        self.ended.clear()
        self._unread = True
        yield self

    async def readany(self) -> bytes:
        if not self._unread:
            await self.ended.wait()
            raise ApiRefusal(404, "NotFound", "404 page not found")
        self._unread = False
        rule = {"metadata": {"name": "r", "resourceVersion": "5"}}
        end = {"metadata": {"resourceVersion": "7", "annotations": {INITIAL_EVENTS_END: "true"}}}
        lines = {"type": "ADDED", "object": rule}, {"type": "BOOKMARK", "object": end}
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
