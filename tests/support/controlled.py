"""A local cluster with its controllers."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from deviceshare_localcluster import Controller, LocalCluster
from support.beside import beside


@asynccontextmanager
async def controlled(cluster: LocalCluster) -> AsyncIterator[Controller]:
    controller = Controller(cluster)
    async with beside(controller.run()):
        yield controller
