"""The local cluster: Kubernetes objects on a nats-server, for use without a Kubernetes cluster.

:class:`LocalCluster` is a connection to it, :class:`Controller` creates the pods of workloads,
:func:`read_manifests` and :func:`load_manifests` read and load manifests. ``python -m deviceshare_localcluster`` runs
all of this as a process.
"""

from typing import TYPE_CHECKING

from deviceshare.lazy_imports import importing

if TYPE_CHECKING:
    from deviceshare_localcluster.cluster import LocalCluster
    from deviceshare_localcluster.controller import Controller
    from deviceshare_localcluster.loading import Loaded, load_manifests
    from deviceshare_localcluster.manifests import Manifest, Manifests, parse_manifests, read_manifests
    from deviceshare_localcluster.writer import Action, Applied
else:
    __getattr__ = importing(
        __name__,
        {
            "cluster": "LocalCluster",
            "controller": "Controller",
            "loading": "Loaded load_manifests",
            "manifests": "Manifest Manifests parse_manifests read_manifests",
            "writer": "Action Applied",
        },
    )

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
