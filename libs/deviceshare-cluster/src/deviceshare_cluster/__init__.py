"""Access to the cluster: one interface (:mod:`~deviceshare_cluster.interface`) and its implementations.

The implementation for Kubernetes is :mod:`~deviceshare_cluster.kube`. The local cluster is a distribution of its own,
which services that run on Kubernetes do not have; it is found by its entry point in the group ``deviceshare.clusters``.
The implementations are imported when a cluster is opened: they take most of a second, and commands have to start fast.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from importlib.metadata import entry_points
from typing import TYPE_CHECKING

from deviceshare_cluster.interface import Cluster, ClusterError

if TYPE_CHECKING:
    from deviceshare_bus.web import Reviewer

LOCAL = "local:"
KUBE = "kube"


class UnknownCluster(ValueError):
    """A text is not a valid cluster specification."""


def check_cluster(spec: str) -> None:
    """Check a cluster specification, and the kubeconfig that it needs, without a request to the cluster.

    Raises:
        UnknownCluster: ``spec`` is invalid, or there is no configuration of this cluster.
    """
    open_cluster(spec)
    if _kind(spec) == KUBE:
        from deviceshare_cluster.kube.client import KubeClient

        try:
            asyncio.run(KubeClient(context=spec.partition(":")[2]).read_configuration())
        except ClusterError as error:
            raise UnknownCluster(f"--cluster {spec!r} is not valid: {error}") from error


def open_cluster(spec: str, name: str = "deviceshare", instance: str = "", silence: float | None = None) -> Cluster:
    """Return the cluster that ``spec`` names, not connected yet.

    ``name`` and ``instance`` are the reporting component and instance of Events. A watch of a Kubernetes cluster is
    restarted after ``silence`` seconds without data (None: the default of the implementation).

    ``local:nats://host:port`` is a local cluster. ``kube`` is the Kubernetes cluster of the service account, or else of
    the kubeconfig's current context (KUBECONFIG, ~/.kube/config); ``kube:CONTEXT`` selects another context.

    Raises:
        UnknownCluster: ``spec`` is invalid, or the distribution of local clusters is not installed.
    """
    if _kind(spec) == KUBE:
        from deviceshare_cluster.kube import SILENCE, KubeCluster
        from deviceshare_cluster.kube.follow import Patience

        patience = Patience(silence=SILENCE if silence is None else silence)
        return KubeCluster(context=spec.partition(":")[2], name=name, instance=instance, patience=patience)
    for point in entry_points(group="deviceshare.clusters", name="local"):
        local: Cluster = point.load()(spec.removeprefix(LOCAL), name=instance or name, component=name)
        return local
    raise UnknownCluster(f"--cluster {spec!r} is not valid: deviceshare-localcluster is not installed; expected kube")


@asynccontextmanager
async def kube_reviewer(context: str = "") -> AsyncIterator["Reviewer"]:
    """Connect to the API server of a context, or as ``kube`` of :func:`open_cluster`, to review tokens and permissions.

    Raises:
        ConfigError: there is no configuration of this cluster.
    """
    from deviceshare_cluster.kube.reviewing import KubeReviewer

    async with KubeReviewer(context=context) as reviewer:
        yield reviewer


def reviewer_of(spec: str) -> Callable[[], AbstractAsyncContextManager["Reviewer"]] | None:
    """Return what connects to the API server of a cluster specification; None for a local cluster, which has no users.

    Raises:
        UnknownCluster: ``spec`` is invalid.
    """
    return partial(kube_reviewer, spec.partition(":")[2]) if _kind(spec) == KUBE else None


def _kind(spec: str) -> str:
    """Return which implementation a specification names. Raises UnknownCluster."""
    kind = spec.partition(":")[0]
    if kind == KUBE:
        return KUBE
    if not spec.startswith(LOCAL) or not spec.removeprefix(LOCAL).startswith(("nats://", "tls://")):
        raise UnknownCluster(f"--cluster {spec!r} is not valid: expected kube, kube:CONTEXT or local:nats://host:port")
    return LOCAL
