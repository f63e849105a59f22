"""Clusters under test: every implementation of the interface, each empty and with ways to create and delete."""

from collections.abc import AsyncIterator
from typing import Any, Protocol

import pytest
from deviceshare_cluster.interface import Cluster
from deviceshare_cluster.local import LocalCluster
from support.kube_cluster import CleanCluster


class WritableCluster(Cluster, Protocol):
    """What the suite needs beside the interface."""

    async def create(self, obj: dict[str, Any]) -> object: ...

    async def delete(self, kind: str, namespace: str, name: str) -> object: ...


@pytest.fixture(params=["local", "kube"])
async def cluster(request: pytest.FixtureRequest) -> AsyncIterator[WritableCluster]:
    """Give an empty cluster of each kind."""
    if request.param == "local":
        async with LocalCluster(request.getfixturevalue("nats_url")) as local:
            await local.setup()
            yield local
    else:
        async with CleanCluster(request.getfixturevalue("apiserver")) as kube:
            yield kube
