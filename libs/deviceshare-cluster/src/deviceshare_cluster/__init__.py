"""The cluster behind deviceshare: one interface (:mod:`~deviceshare_cluster.interface`) and its implementations."""

from deviceshare_cluster.interface import Cluster
from deviceshare_cluster.kube import SILENCE, KubeCluster
from deviceshare_cluster.kube.follow import Patience
from deviceshare_cluster.local import LocalCluster

LOCAL = "local:"
KUBE = "kube"


class UnknownCluster(ValueError):
    """A text is not a valid cluster name."""


def open_cluster(spec: str, name: str = "deviceshare", instance: str = "", silence: float = SILENCE) -> Cluster:
    """Return the cluster that ``spec`` names, not connected yet.

    Args:
        spec: ``local:nats://host:port``: a local cluster; ``kube``: the Kubernetes cluster of the pod's service
            account, else of the kubeconfig's current context (KUBECONFIG, ~/.kube/config); ``kube:CONTEXT``: of another
            context.
        name: the reporting component of Events.
        instance: the reporting instance of Events.
        silence: seconds without data after which a watch of a Kubernetes cluster is started again.

    Raises:
        UnknownCluster: ``spec`` is malformed.
    """
    kind, _, context = spec.partition(":")
    if kind == KUBE:
        return KubeCluster(context=context, name=name, instance=instance, patience=Patience(silence=silence))
    url = spec.removeprefix(LOCAL)
    if not spec.startswith(LOCAL) or not url.startswith(("nats://", "tls://")):
        raise UnknownCluster(f"--cluster {spec!r} is not valid: expected kube, kube:CONTEXT or local:nats://host:port")
    return LocalCluster(url, name=instance or name, component=name)
