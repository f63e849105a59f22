"""Inventory and placement on a real API server, for the tests that change its objects."""

from collections.abc import AsyncIterator

import pytest
from support.apiserver import ApiServer
from support.kube_cluster import CleanCluster
from support.kube_scene import Scene, following


@pytest.fixture
async def scene(apiserver: ApiServer, nats_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Scene]:
    async with CleanCluster(apiserver) as cluster, following(apiserver, nats_url, monkeypatch) as context:
        yield Scene(cluster, context)
