"""The kinds of resources that commands accept, by the names that ``kubectl`` accepts."""

from collections.abc import Sequence
from typing import NamedTuple

from deviceshare_cli.errors import CommandError


class Resource(NamedTuple):
    """A kind of resources.

    ``group``: its API group, empty for the core group. ``kind``: of its Kubernetes objects; empty for devices and
    claims, which are none.
    """

    plural: str
    singular: str
    short: tuple[str, ...]
    kind: str
    group: str
    namespaced: bool

    @property
    def qualified(self) -> str:
        """The plural with the group, as in errors of the API server: ``queues.scheduling.volcano.sh``."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def title(self, name: str) -> str:
        """Return an object's name as ``-o name`` prints it: ``pod/a``, ``job.batch.volcano.sh/a``."""
        return f"{self.singular}.{self.group}/{name}" if self.group else f"{self.singular}/{name}"


_SCHEDULING, _BATCH = "scheduling.volcano.sh", "batch.volcano.sh"
NODES = Resource("nodes", "node", ("no",), "Node", "", False)
DEVICES = Resource("devices", "device", ("dev", "cards", "card"), "", "", False)
PODS = Resource("pods", "pod", ("po",), "Pod", "", True)
CLAIMS = Resource("claims", "claim", (), "", "", True)
PODGROUPS = Resource("podgroups", "podgroup", ("pg", "podgroup-v1beta1"), "PodGroup", _SCHEDULING, True)
QUEUES = Resource("queues", "queue", ("q", "queue-v1beta1"), "Queue", _SCHEDULING, False)
JOBS = Resource("jobs", "job", ("vcjob", "vj"), "Job", _BATCH, True)
EVENTS = Resource("events", "event", ("ev",), "Event", "", True)
VOLUME_CLAIMS = Resource("persistentvolumeclaims", "persistentvolumeclaim", ("pvc",), "PersistentVolumeClaim", "", True)
VOLUMES = Resource("persistentvolumes", "persistentvolume", ("pv",), "PersistentVolume", "", False)
STORAGE_CLASSES = Resource("storageclasses", "storageclass", ("sc",), "StorageClass", "storage.k8s.io", False)
BUDGETS = Resource("poddisruptionbudgets", "poddisruptionbudget", ("pdb",), "PodDisruptionBudget", "policy", True)
_RESOURCE = "resource.k8s.io"
RESOURCE_CLAIMS = Resource("resourceclaims", "resourceclaim", (), "ResourceClaim", _RESOURCE, True)
CLAIM_TEMPLATES = Resource(
    "resourceclaimtemplates", "resourceclaimtemplate", (), "ResourceClaimTemplate", _RESOURCE, True
)
DEVICE_CLASSES = Resource("deviceclasses", "deviceclass", (), "DeviceClass", _RESOURCE, False)
RESOURCE_SLICES = Resource("resourceslices", "resourceslice", (), "ResourceSlice", _RESOURCE, False)
DEVICE_KINDS = (RESOURCE_CLAIMS, CLAIM_TEMPLATES, DEVICE_CLASSES, RESOURCE_SLICES)
"""The kinds of Dynamic Resource Allocation."""
DEVICE_TAINT_RULES = Resource("devicetaintrules", "devicetaintrule", (), "DeviceTaintRule", _RESOURCE, False)
"""No command shows them, but they decide which devices are given."""
RESOURCES = (
    NODES, DEVICES, PODS, CLAIMS, PODGROUPS, QUEUES, JOBS, EVENTS, VOLUME_CLAIMS, VOLUMES, STORAGE_CLASSES, BUDGETS,
    *DEVICE_KINDS,
)  # fmt: skip
DESCRIBED = (PODS, NODES, QUEUES, PODGROUPS, JOBS, *DEVICE_KINDS)
"""The kinds that ``describe`` takes."""
_APPS, _KUBEFLOW, _RAY = "apps", "kubeflow.org", "ray.io"
DEPLOYMENTS = Resource("deployments", "deployment", ("deploy",), "Deployment", _APPS, True)
REPLICA_SETS = Resource("replicasets", "replicaset", ("rs",), "ReplicaSet", _APPS, True)
STATEFUL_SETS = Resource("statefulsets", "statefulset", ("sts",), "StatefulSet", _APPS, True)
LEADER_WORKER_SETS = Resource(
    "leaderworkersets", "leaderworkerset", ("lws",), "LeaderWorkerSet", "leaderworkerset.x-k8s.io", True
)
KUBERNETES_JOBS = Resource("jobs", "job", (), "KubernetesJob", "batch", True)
CRON_JOBS = Resource("cronjobs", "cronjob", ("cj",), "CronJob", "batch", True)
SCALABLE = (DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS, LEADER_WORKER_SETS)
WORKLOADS = (
    *SCALABLE,
    KUBERNETES_JOBS,
    CRON_JOBS,
    Resource("pytorchjobs", "pytorchjob", (), "PyTorchJob", _KUBEFLOW, True),
    Resource("tfjobs", "tfjob", (), "TFJob", _KUBEFLOW, True),
    Resource("xgboostjobs", "xgboostjob", (), "XGBoostJob", _KUBEFLOW, True),
    Resource("paddlejobs", "paddlejob", (), "PaddleJob", _KUBEFLOW, True),
    Resource("jaxjobs", "jaxjob", (), "JAXJob", _KUBEFLOW, True),
    Resource("mpijobs", "mpijob", (), "MPIJob", _KUBEFLOW, True),
    Resource("notebooks", "notebook", (), "Notebook", _KUBEFLOW, True),
    Resource("rayclusters", "raycluster", (), "RayCluster", _RAY, True),
    Resource("rayjobs", "rayjob", (), "RayJob", _RAY, True),
    Resource("rayservices", "rayservice", (), "RayService", _RAY, True),
    Resource("jobsets", "jobset", (), "JobSet", "jobset.x-k8s.io", True),
)
"""Kinds that only commands which change a local cluster accept. A Job of Kubernetes is named ``job.batch``."""
_BY_NAME = {
    name: resource
    for resource in (*WORKLOADS, *RESOURCES)  # the later ones have the short names
    for base in (resource.plural, resource.singular, *resource.short)
    for name in (base, f"{base}.{resource.group}")
}


def find_resource(name: str, among: Sequence[Resource] = RESOURCES) -> Resource:
    """Return the resource of a plural, singular or short name. Raises CommandError as ``kubectl`` does."""
    resource = _BY_NAME.get(name.lower())
    if resource not in among or resource is None:
        known = ", ".join("/".join((each.plural, *each.short[:1])) for each in among)
        raise CommandError(f'the server doesn\'t have a resource type "{name}"; this command knows {known}')
    return resource


def not_found(resource: Resource, name: str) -> str:
    """Return the error of an object that does not exist, as ``kubectl`` prints it."""
    return f'Error from server (NotFound): {resource.qualified} "{name}" not found'


class Target(NamedTuple):
    """The objects that the arguments of a command name; no names: all objects."""

    resource: Resource
    names: tuple[str, ...]


def parse_target(arguments: Sequence[str], among: Sequence[Resource] = RESOURCES) -> Target:
    """Return what ``KIND [NAME...]`` or ``KIND/NAME...`` names. Raises CommandError."""
    first, *names = arguments
    if "/" not in first:
        return Target(find_resource(first, among), tuple(names))
    found = [each.partition("/")[::2] for each in arguments]
    resources = [find_resource(kind, among) for kind, _ in found]
    if len(set(resources)) > 1 or not all(name for _, name in found):
        raise CommandError("arguments in the form KIND/NAME must all have a name and the same kind")
    return Target(resources[0], tuple(name for _, name in found))


def split_name(name: str, namespace: str | None) -> tuple[str, str]:
    """Return namespace and name of ``NAME`` or ``NAMESPACE/NAME``; the namespace ``default`` if none is given.

    Raises CommandError if the name is not valid, or names another namespace than the option.
    """
    given, slash, short = name.rpartition("/")
    if not short or "/" in given or (slash and not given):
        raise CommandError(f"{name}: expected NAME or NAMESPACE/NAME")
    if slash and namespace not in (None, given):
        raise CommandError(f"{name}: the option -n names another namespace, {namespace}")
    return given or namespace or "default", short
