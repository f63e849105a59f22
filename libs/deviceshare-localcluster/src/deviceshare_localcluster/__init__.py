"""The local cluster: Kubernetes objects on a nats-server, for use without a Kubernetes cluster.

:class:`LocalCluster` is a connection to it, :class:`Controller` creates the pods of workloads,
:func:`read_manifests` and :func:`load_manifests` read and load manifests. ``python -m deviceshare_localcluster`` runs
all of this as a process.
"""

from deviceshare_localcluster.cluster import LocalCluster
from deviceshare_localcluster.controller import Controller
from deviceshare_localcluster.loading import Loaded, load_manifests
from deviceshare_localcluster.manifests import Manifest, Manifests, parse_manifests, read_manifests
from deviceshare_localcluster.writer import Action, Applied

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
