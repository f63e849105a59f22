"""Whether a controller creates a pod again on another node when it is gone. Pure."""

import msgspec
from deviceshare.model import PodFact
from deviceshare.objects.views import Metadata, Present
from deviceshare_cluster.interface import Object

TERMINATING = "terminating"
UNREAD = "Pod object not read"
STATIC = "static pod"
DAEMON_SET = "pod of a DaemonSet"
NO_CONTROLLER = "no controller that creates it again"
OTHER_SCHEDULER = "another scheduler"
"""Why a pod is not created again elsewhere."""

MIRROR = "kubernetes.io/config.mirror"
"""The annotation of static pods. As for kubectl drain it alone counts: the API server refuses to add it to a pod, while
owner references can be changed."""


class _Owner(msgspec.Struct, rename="camel"):
    kind: str | None = None
    controller: bool | None = None


class _Metadata(Metadata):
    owner_references: list[_Owner] | None = None


class _EmptyDir(msgspec.Struct, rename="camel"):
    medium: str | None = None


class _Volume(msgspec.Struct, rename="camel"):
    name: str | None = None
    host_path: Present | None = None
    empty_dir: _EmptyDir | None = None


class _Spec(msgspec.Struct, rename="camel"):
    restart_policy: str | None = None
    volumes: list[_Volume] | None = None


class PodParts(msgspec.Struct, rename="camel"):
    """The parts of a Pod object that say whether it is created again, and what it loses."""

    metadata: _Metadata
    spec: _Spec


def read_parts(obj: Object | None) -> PodParts | None:
    """Return the parts of a Pod object, None if it is not known, or cannot be read."""
    try:
        return None if obj is None else msgspec.convert(obj, PodParts)
    except msgspec.ValidationError:
        return None


def obstacle_to_recreate(fact: PodFact, pod: PodParts | None) -> str:
    """Return why no controller creates a pod again on another node when it is gone, '' if one does."""
    if pod is None:
        return TERMINATING if fact.terminating else UNREAD
    owner = next((each.kind for each in pod.metadata.owner_references or () if each.controller), None)
    if MIRROR in (pod.metadata.annotations or {}):
        return STATIC
    if owner == "DaemonSet":
        return DAEMON_SET
    if fact.terminating:
        return TERMINATING
    return NO_CONTROLLER if owner in (None, "Node") else ""


def empty_dirs(pod: PodParts) -> list[str]:
    """Return the names of the volumes of a pod whose data is lost with it."""
    return [each.name or "" for each in pod.spec.volumes or () if each.empty_dir is not None]
