"""The local cluster: Kubernetes objects on a nats-server, for use without a Kubernetes cluster.

:class:`LocalCluster` is a connection to it, :class:`Controller` creates the pods of workloads,
:func:`read_manifests` and :func:`load_manifests` read and load manifests. ``python -m deviceshare_localcluster`` runs
all of this as a process.
"""

from typing import TYPE_CHECKING

from deviceshare.lazy_imports import importing

if TYPE_CHECKING:
    from deviceshare_localcluster.cluster import LocalCluster as LocalCluster
    from deviceshare_localcluster.controller import Controller as Controller
    from deviceshare_localcluster.loading import load_manifests as load_manifests
    from deviceshare_localcluster.manifests import (
        Manifest as Manifest,
        Manifests as Manifests,
        parse_manifests as parse_manifests,
        read_manifests as read_manifests,
    )
    from deviceshare_localcluster.writer import Action as Action, Applied as Applied
else:
    __getattr__ = importing(
        __name__,
        {
            "cluster": "LocalCluster",
            "controller": "Controller",
            "loading": "load_manifests",
            "manifests": "Manifest Manifests parse_manifests read_manifests",
            "writer": "Action Applied",
        },
    )
