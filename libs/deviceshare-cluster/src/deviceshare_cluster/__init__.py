"""The cluster behind deviceshare: one interface (:mod:`~deviceshare_cluster.interface`), and what implements it."""

from deviceshare_cluster.interface import Cluster
from deviceshare_cluster.kube import SILENCE, KubeCluster
from deviceshare_cluster.kube.follow import Patience
from deviceshare_cluster.local import LocalCluster

LOCAL = "local:"
KUBE = "kube"


class UnknownCluster(ValueError):
    """A text does not name a cluster that can be reached."""


def open_cluster(spec: str, name: str = "deviceshare", instance: str = "", silence: float = SILENCE) -> Cluster:
    """Return the cluster that ``spec`` names, not connected yet.

    ``name`` is who Events say they come from, ``instance`` the process; ``silence`` seconds without a word a watch of a
    Kubernetes cluster is believed.

    ``local:nats://host:port`` is a local cluster. ``kube`` is the Kubernetes cluster whose service account we run
    under, else that of the kubeconfig's current context (KUBECONFIG, ~/.kube/config); ``kube:CONTEXT`` that of another.
    Raises UnknownCluster.
    """
    kind, _, context = spec.partition(":")
    if kind == KUBE:
        return KubeCluster(context=context, name=name, instance=instance, patience=Patience(silence=silence))
    url = spec.removeprefix(LOCAL)
    if not spec.startswith(LOCAL) or not url.startswith(("nats://", "tls://")):
        raise UnknownCluster(f"--cluster {spec!r} is not valid: expected kube, kube:CONTEXT or local:nats://host:port")
    return LocalCluster(url, name=instance or name, component=name)
