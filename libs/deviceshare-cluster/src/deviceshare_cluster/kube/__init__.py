"""A Kubernetes cluster through its API server: list and watch, Bindings with annotations, conditions, Events.

:mod:`.client` sends requests, :mod:`.follow` lists and watches one kind, :mod:`.cluster` is the interface.
"""

from deviceshare_cluster.kube.cluster import KubeCluster
from deviceshare_cluster.kube.follow import SILENCE

__all__ = ["SILENCE", "KubeCluster"]
