"""A Kubernetes cluster by its API server: list and watch, Bindings with annotations, conditions, Events.

:mod:`.client` sends requests, :mod:`.follow` lists and watches one kind, :mod:`.cluster` implements the interface.
"""

from deviceshare_cluster.kube.cluster import KubeCluster as KubeCluster
from deviceshare_cluster.kube.follow import SILENCE as SILENCE
