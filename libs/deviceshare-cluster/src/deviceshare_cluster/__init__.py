"""Access to the cluster: one interface (:mod:`~deviceshare_cluster.interface`) and its implementations."""

import asyncio

from deviceshare_cluster.interface import Cluster, ClusterError
from deviceshare_cluster.kube import SILENCE, KubeCluster
from deviceshare_cluster.kube.client import KubeClient
from deviceshare_cluster.kube.follow import Patience
from deviceshare_cluster.local import LocalCluster

LOCAL = "local:"
KUBE = "kube"


class UnknownCluster(ValueError):
    """A text is not a valid cluster specification."""


def check_cluster(spec: str) -> None:
    """Check a cluster specification, and the kubeconfig that it needs, without a request to the cluster.

    Raises:
        UnknownCluster: ``spec`` is invalid, or there is no configuration of this cluster.
    """
    if isinstance(open_cluster(spec), KubeCluster):
        try:
            asyncio.run(KubeClient(context=spec.partition(":")[2]).read_configuration())
        except ClusterError as error:
            raise UnknownCluster(f"--cluster {spec!r} is not valid: {error}") from error


def open_cluster(spec: str, name: str = "deviceshare", instance: str = "", silence: float = SILENCE) -> Cluster:
    """Return the cluster that ``spec`` names, not connected yet.

    ``name`` and ``instance`` are the reporting component and instance of Events. A watch of a Kubernetes cluster is
    restarted after ``silence`` seconds without data.

    ``local:nats://host:port`` is a local cluster. ``kube`` is the Kubernetes cluster of the service account, or else of
    the kubeconfig's current context (KUBECONFIG, ~/.kube/config); ``kube:CONTEXT`` selects another context.

    Raises:
        UnknownCluster: ``spec`` is invalid.
    """
    kind, _, context = spec.partition(":")
    if kind == KUBE:
        return KubeCluster(context=context, name=name, instance=instance, patience=Patience(silence=silence))
    url = spec.removeprefix(LOCAL)
    if not spec.startswith(LOCAL) or not url.startswith(("nats://", "tls://")):
        raise UnknownCluster(f"--cluster {spec!r} is not valid: expected kube, kube:CONTEXT or local:nats://host:port")
    return LocalCluster(url, name=instance or name, component=name)
