"""The local cluster: Kubernetes objects on a nats-server, for demonstrations and tests without Kubernetes.

:class:`LocalCluster` is a connection to it, :class:`Controller` makes pods from Jobs, :func:`read_manifests` reads
manifests and :func:`load_manifests` loads them. ``python -m deviceshare_cluster.local`` runs all of it in one process.
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
