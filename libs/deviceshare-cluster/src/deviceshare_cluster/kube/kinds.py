"""API paths of the kinds of objects."""

from typing import NamedTuple
from urllib.parse import quote


class ApiKind(NamedTuple):
    """A kind's group and version (``v1``, ``events.k8s.io/v1``), plural, and whether it is namespaced."""

    version: str
    plural: str
    namespaced: bool
    optional: bool = False
    """Whether its CRD may be missing; the cluster then has no such objects."""
    status_apart: bool = True
    """Whether its status is a subresource."""

    @property
    def root(self) -> str:
        """The path of the group and version."""
        return f"/apis/{self.version}" if "/" in self.version else f"/api/{self.version}"

    def collection(self, namespace: str = "") -> str:
        """Return the path of all objects of the kind, or of the objects in a namespace."""
        if self.namespaced and namespace:
            return f"{self.root}/namespaces/{quote(namespace)}/{self.plural}"
        return f"{self.root}/{self.plural}"

    def object(self, namespace: str, name: str) -> str:
        """Return the path of one object."""
        return f"{self.collection(namespace or 'default')}/{quote(name)}"


KINDS = {
    "Node": ApiKind("v1", "nodes", namespaced=False),
    "Pod": ApiKind("v1", "pods", namespaced=True),
    "ConfigMap": ApiKind("v1", "configmaps", namespaced=True),
    "PriorityClass": ApiKind("scheduling.k8s.io/v1", "priorityclasses", namespaced=False),
    "Namespace": ApiKind("v1", "namespaces", namespaced=False),
    "PersistentVolumeClaim": ApiKind("v1", "persistentvolumeclaims", namespaced=True),
    "PersistentVolume": ApiKind("v1", "persistentvolumes", namespaced=False),
    "StorageClass": ApiKind("storage.k8s.io/v1", "storageclasses", namespaced=False, status_apart=False),
    "CSINode": ApiKind("storage.k8s.io/v1", "csinodes", namespaced=False, status_apart=False),
    "PodGroup": ApiKind(
        "scheduling.volcano.sh/v1beta1", "podgroups", namespaced=True, optional=True, status_apart=False
    ),
    "Queue": ApiKind("scheduling.volcano.sh/v1beta1", "queues", namespaced=False, optional=True),
    "Job": ApiKind("batch.volcano.sh/v1alpha1", "jobs", namespaced=True, optional=True),
    "Event": ApiKind("events.k8s.io/v1", "events", namespaced=True),
}
"""Job, PodGroup and Queue are Volcano's."""
