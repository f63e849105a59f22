"""The local cluster: Kubernetes objects on a nats-server, for everything that needs a cluster where there is none.

:class:`LocalCluster` is a connection to it, :class:`Controller` what makes pods from Jobs, :func:`read_manifests` reads
what users load into it and :func:`load_manifests` does it. ``python -m deviceshare_cluster.local`` is all of this as
a process of its own.
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
