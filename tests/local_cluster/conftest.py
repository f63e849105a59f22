"""A local cluster on a separate server."""

from collections.abc import AsyncIterator

import pytest
from deviceshare_localcluster import LocalCluster


@pytest.fixture
async def local(nats_url: str) -> AsyncIterator[LocalCluster]:
    async with LocalCluster(nats_url) as cluster:
        await cluster.setup()
        yield cluster
