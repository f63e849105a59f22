"""Clusters under test: every implementation of the interface, each empty and with ways to create and delete."""

from collections.abc import AsyncIterator
from typing import Any, Protocol

import pytest
from deviceshare_cluster.interface import Cluster
from deviceshare_cluster.local import LocalCluster


class WritableCluster(Cluster, Protocol):
    """What the suite needs beside the interface."""

    async def create(self, obj: dict[str, Any]) -> object: ...

    async def delete(self, kind: str, namespace: str, name: str) -> object: ...


@pytest.fixture(params=["local"])
async def cluster(request: pytest.FixtureRequest, nats_url: str) -> AsyncIterator[WritableCluster]:
    """Give an empty cluster of each kind."""
    async with LocalCluster(nats_url) as local:
        await local.setup()
        yield local
