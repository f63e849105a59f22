"""API paths of the kinds of objects."""

from typing import NamedTuple
from urllib.parse import quote

from deviceshare.objects import DEVICE_KINDS
from deviceshare.objects import KINDS as WATCHED


class ApiKind(NamedTuple):
    """A kind's group and version (``v1``, ``events.k8s.io/v1``), plural, and whether it is namespaced."""

    version: str
    plural: str
    namespaced: bool
    optional: bool = False
    """Whether its CRD may be missing; the cluster then has no such objects."""
    status_apart: bool = True
    """Whether its status is a subresource."""
    older: tuple[str, ...] = ()
    """The versions that a server may have instead, newest first."""

    @property
    def served(self) -> list["ApiKind"]:
        """The kind in each version that a server may have."""
        return [self._replace(version=each) for each in (self.version, *self.older)]

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
    **{
        name: ApiKind(kind.version, kind.plural, kind.namespaced, kind.optional, kind.status_apart, kind.older)
        for name, kind in {**WATCHED, **DEVICE_KINDS}.items()
    },
    "ResourceClaimTemplate": ApiKind("resource.k8s.io/v1", "resourceclaimtemplates", namespaced=True, optional=True),
    "Job": ApiKind("batch.volcano.sh/v1alpha1", "jobs", namespaced=True, optional=True),
    "Event": ApiKind("events.k8s.io/v1", "events", namespaced=True),
}
"""The kinds that inventory watches, always or where pods use ResourceClaims, those that only commands read (Job is
Volcano's), and those that are written."""
