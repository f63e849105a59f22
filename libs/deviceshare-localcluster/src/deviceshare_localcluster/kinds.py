"""The kinds of objects of the local cluster, and their subjects and messages.

Each object is one message under ``object.<kind>.<namespace or _>.<name>``. The message is the object's JSON with
``apiVersion``, ``kind`` and ``metadata`` first and without ``resourceVersion``, which is the message's sequence and is
inserted on reading. An empty message is the tombstone of a deleted object.
"""

from typing import NamedTuple

import msgspec
from deviceshare.objects import DEVICE_KINDS
from deviceshare.objects import KINDS as WATCHED
from deviceshare_cluster.interface import ClusterError, Object
from deviceshare_cluster.readable import readable

STREAM = "OBJECTS"
_ROOT = "object"
_NO_NAMESPACE = "_"
_MIN_DOTS = 3
DEFAULT_NAMESPACE = "default"


class ResourceKind(NamedTuple):
    """A kind of objects; ``order``: load order, so that referenced objects exist before the objects that name them.

    ``name`` is unique, and differs from the ``kind`` in objects where two groups have a kind of the same name.
    """

    name: str
    api_version: str
    namespaced: bool
    order: int
    shown: str = ""

    @property
    def kind(self) -> str:
        """The ``kind`` in objects."""
        return self.shown or self.name


VOLCANO_JOB, KUBERNETES_JOB = "Job", "KubernetesJob"
_WORKLOAD_ORDER = 5

KINDS = {
    kind.name: kind
    for kind in (
        ResourceKind("PriorityClass", "scheduling.k8s.io/v1", False, 0),
        ResourceKind("Namespace", "v1", False, 0),
        ResourceKind("Queue", "scheduling.volcano.sh/v1beta1", False, 1),
        ResourceKind("ConfigMap", "v1", True, 2),
        ResourceKind("Secret", "v1", True, 2),
        ResourceKind("Service", "v1", True, 2),
        ResourceKind("StorageClass", "storage.k8s.io/v1", False, 2),
        ResourceKind("PersistentVolume", "v1", False, 2),
        ResourceKind("PersistentVolumeClaim", "v1", True, 2),
        ResourceKind("ResourceClaimTemplate", "resource.k8s.io/v1", True, 2),
        ResourceKind("PodDisruptionBudget", "policy/v1", True, 2),
        ResourceKind("Node", "v1", False, 3),
        ResourceKind("CSINode", "storage.k8s.io/v1", False, 3),
        ResourceKind("PodGroup", "scheduling.volcano.sh/v1beta1", True, 4),
        ResourceKind(VOLCANO_JOB, "batch.volcano.sh/v1alpha1", True, _WORKLOAD_ORDER),
        ResourceKind("Deployment", "apps/v1", True, _WORKLOAD_ORDER),
        ResourceKind("ReplicaSet", "apps/v1", True, _WORKLOAD_ORDER),
        ResourceKind("StatefulSet", "apps/v1", True, _WORKLOAD_ORDER),
        ResourceKind(KUBERNETES_JOB, "batch/v1", True, _WORKLOAD_ORDER, "Job"),
        ResourceKind("CronJob", "batch/v1", True, _WORKLOAD_ORDER),
        ResourceKind("PyTorchJob", "kubeflow.org/v1", True, _WORKLOAD_ORDER),
        ResourceKind("TFJob", "kubeflow.org/v1", True, _WORKLOAD_ORDER),
        ResourceKind("XGBoostJob", "kubeflow.org/v1", True, _WORKLOAD_ORDER),
        ResourceKind("PaddleJob", "kubeflow.org/v1", True, _WORKLOAD_ORDER),
        ResourceKind("JAXJob", "kubeflow.org/v1", True, _WORKLOAD_ORDER),
        ResourceKind("MPIJob", "kubeflow.org/v2beta1", True, _WORKLOAD_ORDER),
        ResourceKind("Notebook", "kubeflow.org/v1", True, _WORKLOAD_ORDER),
        ResourceKind("RayCluster", "ray.io/v1", True, _WORKLOAD_ORDER),
        ResourceKind("RayJob", "ray.io/v1", True, _WORKLOAD_ORDER),
        ResourceKind("RayService", "ray.io/v1", True, _WORKLOAD_ORDER),
        ResourceKind("LeaderWorkerSet", "leaderworkerset.x-k8s.io/v1", True, _WORKLOAD_ORDER),
        ResourceKind("JobSet", "jobset.x-k8s.io/v1alpha2", True, _WORKLOAD_ORDER),
        ResourceKind("Pod", "v1", True, 6),
        ResourceKind("Event", "v1", True, 7),
    )
}
KINDS |= {
    name: ResourceKind(name, kind.version, kind.namespaced, 0)
    for name, kind in {**WATCHED, **DEVICE_KINDS}.items()
    if name not in KINDS
}
_ORDERS = {kind.kind: kind.order for kind in KINDS.values()}
_BY_VERSION = {(kind.api_version, kind.kind): kind for kind in KINDS.values()}

_PREFIX = {
    name: f'{{"apiVersion":"{kind.api_version}","kind":"{kind.kind}","metadata":{{'.encode()
    for name, kind in KINDS.items()
}
_encoder = msgspec.json.Encoder()


class Key(NamedTuple):
    """The key of an object; ``namespace`` is empty for cluster-scoped kinds."""

    kind: str
    namespace: str
    name: str

    @property
    def subject(self) -> str:
        """The subject of its message."""
        return f"{_ROOT}.{self.kind}.{self.namespace or _NO_NAMESPACE}.{self.name}"

    def __str__(self) -> str:
        """Return the object's name for messages: ``Pod default/a`` or ``Node gpu-1``."""
        kind = KINDS[self.kind].kind if self.kind in KINDS else self.kind
        return f"{kind} {self.namespace}/{self.name}" if self.namespace else f"{kind} {self.name}"


def known_kind(api_version: object, kind: object) -> ResourceKind | None:
    """Return the kind of objects with these values, None for a kind or version that is not known."""
    return _BY_VERSION.get((api_version, kind)) if isinstance(api_version, str) and isinstance(kind, str) else None


def order_of(obj: Object) -> int:
    """Return the load order of an object; objects of unknown kinds are the last."""
    kind = obj.get("kind")
    return _ORDERS.get(kind, len(KINDS)) if isinstance(kind, str) else len(KINDS)


def kind_of(obj: Object) -> str:
    """Return the name of the kind of an admitted object."""
    return _BY_VERSION[obj["apiVersion"], obj["kind"]].name


def key_of(obj: Object) -> Key:
    """Return the key of an admitted object."""
    metadata = obj["metadata"]
    return Key(kind_of(obj), metadata.get("namespace", ""), metadata["name"])


def named_key(kind: str, namespace: str, name: str) -> Key:
    """Return the key of an object as a user names it: the namespace defaults, and is ignored for other kinds."""
    known = KINDS.get(kind)
    return Key(kind, (namespace or DEFAULT_NAMESPACE) if known is not None and known.namespaced else "", name)


def is_key(subject: str) -> bool:
    """Return whether a subject is that of an object; other ones only a user writes."""
    return subject.count(".") >= _MIN_DOTS


def key_of_subject(subject: str) -> Key:
    """Return the key of a subject; names may contain dots."""
    _, kind, namespace, name = subject.split(".", 3)
    return Key(kind, "" if namespace == _NO_NAMESPACE else namespace, name)


def subjects_of(kind: str) -> str:
    """Return the subject that matches all objects of a kind."""
    return f"{_ROOT}.{kind}.>"


ALL_SUBJECTS = f"{_ROOT}.>"


def encode(obj: Object) -> bytes:
    """Return the bytes to store for an admitted object."""
    metadata = obj["metadata"]
    if "resourceVersion" in metadata:
        metadata = {name: value for name, value in metadata.items() if name != "resourceVersion"}
    head = {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "metadata": metadata}
    return _encoder.encode(head | {name: value for name, value in obj.items() if name not in head})


def as_read(kind: str, data: bytes, revision: int) -> bytes:
    """Return the object's JSON as the API server sends it: the stored bytes with the ``resourceVersion``.

    Bytes that :func:`encode` has not written are returned as they are if they are no readable object.
    """
    prefix = _PREFIX.get(kind)
    if prefix is not None and data.startswith(prefix + b'"'):
        return b'%b"resourceVersion":"%d",%b' % (prefix, revision, data[len(prefix) :])
    try:
        return _encoder.encode(decode(kind, data, revision))
    except ClusterError:
        return data


def decode(kind: str, data: bytes, revision: int) -> Object:
    """Return an object of stored bytes (:func:`.readable.readable`). Raises a final ClusterError."""
    known = KINDS.get(kind)
    obj = readable(kind, data)
    obj["metadata"]["resourceVersion"] = str(revision)
    expected = (known.api_version, known.kind) if known is not None else None
    if (obj.get("apiVersion"), obj.get("kind")) != expected:
        found = f"{obj.get('apiVersion')} {obj.get('kind')}"
        raise ClusterError(f"an object that is stored as {kind} is of another kind: {found}", final=True)
    return obj
