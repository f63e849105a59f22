"""Clusters under test: every implementation of the interface, each empty, with functions to change objects."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest
import yaml
from deviceshare_cluster.interface import Cluster
from deviceshare_localcluster import LocalCluster
from support.definitions import installed
from support.draining import drained_nodes
from support.kube_cluster import CleanCluster

__all__ = ["drained_nodes"]

CRDS = Path(__file__).parents[2] / "deploy" / "kubernetes" / "crds"


class WritableCluster(Cluster, Protocol):
    """What the suite needs beside the interface."""

    async def create(self, obj: dict[str, Any]) -> object: ...

    async def delete(self, kind: str, namespace: str, name: str) -> object: ...


@pytest.fixture
def volcano_kinds(request: pytest.FixtureRequest, cluster: WritableCluster) -> Iterator[None]:
    """Let there be PodGroups and Queues."""
    if isinstance(cluster, LocalCluster):
        yield
        return
    definitions = [yaml.safe_load((CRDS / name).read_text()) for name in ("podgroups.yaml", "queues.yaml")]
    with installed(request.getfixturevalue("apiserver"), *definitions):
        yield


@pytest.fixture(params=["local", pytest.param("kube", marks=pytest.mark.system)])
async def cluster(request: pytest.FixtureRequest) -> AsyncIterator[WritableCluster]:
    """Give an empty cluster of each kind."""
    if request.param == "local":
        async with LocalCluster(request.getfixturevalue("nats_url")) as local:
            await local.setup()
            yield local
    else:
        async with CleanCluster(request.getfixturevalue("apiserver")) as kube:
            yield kube
