"""The local cluster: Kubernetes objects on a nats-server, for use without a Kubernetes cluster.

:class:`LocalCluster` is a connection to it, :class:`Controller` creates the pods of workloads,
:func:`read_manifests` and :func:`load_manifests` read and load manifests. ``python -m deviceshare_cluster.local`` runs
all of this as a process.
"""

from deviceshare_cluster.local.cluster import LocalCluster
from deviceshare_cluster.local.controller import Controller
from deviceshare_cluster.local.loading import Loaded, load_manifests
from deviceshare_cluster.local.manifests import Manifest, Manifests, parse_manifests, read_manifests
from deviceshare_cluster.local.writer import Action, Applied

__all__ = [
    "Action",
    "Applied",
    "Controller",
    "Loaded",
    "LocalCluster",
    "Manifest",
    "Manifests",
    "load_manifests",
    "parse_manifests",
    "read_manifests",
]
