"""Objects for the contract of every cluster, and how its tests read a watch."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from deviceshare_cluster.interface import Change, Listed


def pod(name: str, **spec: Any) -> dict[str, Any]:
    """Return a pod without a node."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "annotations": {"user": "kept"}},
        "spec": {"schedulerName": "volcano", "containers": [{"name": "c", "image": "busybox"}], **spec},
    }


def node(name: str) -> dict[str, Any]:
    """Return a node."""
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": {"capacity": {"cpu": "4"}}}


async def created(cluster: Any, name: str, **spec: Any) -> str:
    """Create a pod and return its uid."""
    await cluster.create(pod(name, **spec))
    return str((await cluster.get("Pod", "default", name))["metadata"]["uid"])


async def revision_of(cluster: Any, name: str) -> str:
    """Return the revision of a pod."""
    return str((await cluster.get("Pod", "default", name))["metadata"]["resourceVersion"])


async def until(watch: AsyncIterator[list[Change | Listed]], last: Any) -> list[Change | Listed]:
    """Read a watch until an item satisfies ``last``."""
    seen: list[Change | Listed] = []
    async with asyncio.timeout(60):
        async for batch in watch:
            for item in batch:
                seen.append(item)
                if last(item):
                    return seen
    raise AssertionError("a watch never ends")


def listed(item: Change | Listed) -> bool:
    """Return whether a list is complete."""
    return isinstance(item, Listed)
