"""The table of actions of ``tests/security/test_admission.py``: who, what, and which layer denies."""

from typing import Any, NamedTuple

from deviceshare.families.hami_vnpu import wire as hami_vnpu_wire
from deviceshare.families.mindcluster import wire as mindcluster_wire
from deviceshare.families.vgpu import wire as vgpu_wire
from deviceshare.families.volcano_gpu import wire as gpu_share_wire
from deviceshare.model import FENCE
from deviceshare.model.signatures import SIGNATURE
from support.manifest import manifest

SYSTEM, NAMESPACE = "deviceshare-system", "admission-test"
VOLCANO = "/apis/scheduling.volcano.sh/v1beta1"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
POD = f"{PODS}/p"
CROWDED = f"{PODS}/crowded"
"""A pod with :data:`MANY` annotations."""
MANY = {f"mine/a{number}": "x" for number in range(1_500)}
NODE = "/api/v1/nodes/admission-node"
GROUPS = f"{VOLCANO}/namespaces/{NAMESPACE}/podgroups"
GROUP = f"{GROUPS}/g"
QUEUES = f"{VOLCANO}/queues"
QUEUE = f"{QUEUES}/admission-queue"
EVENTS = f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events"
CONFIGURATION = f"/api/v1/namespaces/{SYSTEM}/configmaps"
RBAC = "rbac"
ACCOUNTS = {
    **{name: (SYSTEM, name) for name in ("binder", "inventory", "placement", "metrics")},
    "tenant": (NAMESPACE, "tenant"),
    "volcano": ("volcano-system", "volcano-scheduler"),
    "plugin": ("kube-system", "volcano-device-plugin"),
    "unknown plugin": ("kube-system", "unknown-plugin"),
}
NOT_READY = {"type": "Ready", "status": "False"}
WAITS = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "m"}
IDS = "volcano.sh/vgpu-ids-new"


class Action(NamedTuple):
    """One request; ``layer`` that denies it: ``rbac``, the name of a policy, or '' if it is allowed."""

    who: str
    what: str
    layer: str
    method: str
    path: str
    body: Any = None


def actions(who: str, layer: str, method: str, path: str, bodies: dict[str, Any]) -> list[Action]:
    """Return the requests of an account with one method on one path, of which each has a name and a body."""
    return [Action(who, what, layer, method, path, body) for what, body in bodies.items()]


def reads(who: str, layer: str, paths: dict[str, str]) -> list[Action]:
    """Return requests to read paths, of which each has a name."""
    return [Action(who, what, layer, "GET", path) for what, path in paths.items()]


def annotated(name: str, value: str | None = "x") -> dict[str, Any]:
    return {"metadata": {"annotations": {name: value}}}


def pod(name: str = "new", **metadata: Any) -> dict[str, Any]:
    return manifest(
        "Pod",
        {"name": name, "namespace": NAMESPACE, **metadata},
        spec={"schedulerName": "deviceshare", "containers": [{"name": "c", "image": "busybox"}]},
    )


def group(name: str = "new", queue: str = "default", phase: str = "", **metadata: Any) -> dict[str, Any]:
    found = manifest(
        "PodGroup", {"name": name, "namespace": NAMESPACE, **metadata}, spec={"minMember": 1, "queue": queue}
    )
    return found | ({"status": {"phase": phase}} if phase else {})


def queue(name: str, **spec: Any) -> dict[str, Any]:
    return manifest("Queue", {"name": name}, spec={"weight": 1, **spec})


def event(name: str, reporter: str) -> dict[str, Any]:
    return manifest(
        "Event",
        {"name": name, "namespace": NAMESPACE},
        "events.k8s.io/v1",
        regarding={"kind": "Pod", "namespace": NAMESPACE, "name": "p"},
        type="Normal",
        reason="Test",
        action="Binding",
        note="n",
        reportingController=reporter,
        reportingInstance=reporter,
        eventTime="2026-01-01T00:00:00.000000Z",
    )


def counted(name: str, reporter: str) -> dict[str, Any]:
    series = {"count": 2, "lastObservedTime": "2026-01-01T00:00:01.000000Z"}
    return {**event(name, reporter), "series": series}


def binding(**metadata: Any) -> dict[str, Any]:
    """Return a Binding of the pod; its uid and revision are inserted where the metadata does not name others."""
    return manifest(
        "Binding",
        {"name": "p", "namespace": NAMESPACE, "uid": "UID", "resourceVersion": "REVISION", **metadata},
        target={"apiVersion": "v1", "kind": "Node", "name": "admission-node"},
    )


def eviction(**options: Any) -> dict[str, Any]:
    metadata = {"name": "p", "namespace": NAMESPACE}
    return {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata, "deleteOptions": options}


TAINT = {"spec": {"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]}}
BINDER_POD, BINDER_NODE = "deviceshare-binder-pods", "deviceshare-binder-nodes"
BINDER_BINDING, BINDER_VOLCANO = "deviceshare-binder-bindings", "deviceshare-binder-volcano"
BINDER_EVICTION = "deviceshare-binder-evictions"
ANNOTATIONS, PODGROUPS, EVENT_POLICY = "deviceshare-annotations", "deviceshare-podgroups", "deviceshare-events"
QUEUE_POLICY, FOREIGN = "deviceshare-queues", "admission-queue"
SERVED = {
    FOREIGN: {"deviceshare.io/namespaces": "team-a, team-b"},
    "own": {"deviceshare.io/namespaces": f"team-a, {NAMESPACE}"},
    "labels": {"deviceshare.io/namespace-selector": f"kubernetes.io/metadata.name={NAMESPACE}"},
    "other-labels": {"deviceshare.io/namespace-selector": f"kubernetes.io/metadata.name={NAMESPACE},team=a"},
}
"""The queues that serve some namespaces alone, with their annotations."""
SECRET = f"/api/v1/namespaces/{SYSTEM}/secrets/deviceshare-signing"
BINDING = f"{POD}/binding"
DENIED = [
    *actions("binder", BINDER_POD, "PATCH", POD, {
        "change an image": {"spec": {"containers": None, "priority": None}},
        "end a pod by a deadline": {"spec": {"activeDeadlineSeconds": 1}},
        "change a label of a pod": {"metadata": {"labels": {"a": "b"}}},
        "remove a label of a pod": {"metadata": {"labels": {"app": None}}},
        "add a finalizer to a pod": {"metadata": {"finalizers": ["a.io/b"]}},
        "change the owners of a pod": {
            "metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "b"}]},
        },
        "change another annotation of a pod": annotated("team"),
        "remove another annotation of a pod": annotated("mine", None),
        "hide a change among many annotations": {
            "metadata": {"annotations": {"mine": "y", **{f"deviceshare.io/a{at}": "x" for at in range(2_001)}}},
        },
    }),
    *actions("binder", BINDER_POD, "PATCH", CROWDED, {"change a pod of many annotations": annotated("mine/a7", "y")}),
    *actions("binder", BINDER_POD, "PATCH", f"{POD}/status", {
        "change the phase of a pod": {"status": {"phase": "Failed"}},
        "change another condition": {"status": {"conditions": [{"type": "Ready", "status": "True"}, WAITS]}},
        "remove another condition": {"status": {"conditions": [WAITS]}},
        "set PodScheduled to True": {
            "status": {"conditions": [NOT_READY, {"type": "PodScheduled", "status": "True"}]},
        },
        "change the IP of a pod": {"status": {"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}]}},
        "change a label by a status": {"metadata": {"labels": {"a": "b"}}},
    }),
    *actions("binder", BINDER_BINDING, "POST", BINDING, {
        "bind with another annotation": binding(annotations={"a": "b"}),
        "bind with a label": binding(labels={"a": "b"}),
        "bind at any revision": binding(resourceVersion=""),
        "bind by name alone": binding(uid=""),
    }),
    Action("binder", "create a pod", RBAC, "POST", PODS, pod()),
    Action("binder", "delete a pod", RBAC, "DELETE", POD),
    *actions("binder", BINDER_EVICTION, "POST", f"{POD}/eviction", {
        "evict a pod whatever its uid": eviction(),
        "evict a pod in no time": eviction(preconditions={"uid": "UID"}, gracePeriodSeconds=0),
    }),
    Action("binder", "run a command in a pod", RBAC, "POST", f"{POD}/exec?command=sh&stdout=true"),
    Action("binder", "add an ephemeral container", RBAC, "PATCH", f"{POD}/ephemeralcontainers", {"spec": {}}),
    *reads("binder", RBAC, {"read a Secret": SECRET, "list pods": "/api/v1/pods"}),
    *actions("binder", BINDER_NODE, "PATCH", NODE, {
        "change a taint": TAINT,
        "cordon a node": {"spec": {"unschedulable": True}},
        "change a label of a node": {"metadata": {"labels": {"a": "b"}}},
        "change the cards of a node": annotated("volcano.sh/node-vgpu-register"),
        "cordon a card": annotated("deviceshare.io/cordoned-cards"),
        "remove an annotation of a node": annotated("mine", None),
    }),
    Action("binder", "change the status of a node", RBAC, "PATCH", f"{NODE}/status",
           {"status": {"capacity": {"cpu": "99"}}}),
    Action("binder", "delete a node", RBAC, "DELETE", NODE),
    *actions("binder", BINDER_VOLCANO, "PATCH", GROUP, {
        "change the queue of a PodGroup": {"spec": {"queue": "other"}},
        "change a label of a PodGroup": {"metadata": {"labels": {"a": "b"}}},
        "change an annotation of a PodGroup": annotated("mine", "b"),
    }),
    *actions("binder", BINDER_VOLCANO, "POST", QUEUES, {
        "create a queue": queue("mine"),
        "create a root with a capability": queue("root", capability={"cpu": 1}),
    }),
    Action("binder", "change the weight of a queue", RBAC, "PATCH", QUEUE, {"spec": {"weight": 9}}),
    Action("binder", "record an Event of another reporter", EVENT_POLICY, "POST", EVENTS, event("new", "kubelet")),
    Action("binder", "overwrite an Event of another reporter", EVENT_POLICY, "PUT", f"{EVENTS}/others",
           counted("others", "kubelet")),
    Action("binder", "change a ConfigMap", RBAC, "POST", CONFIGURATION, {"metadata": {"name": "c"}}),
    Action("binder", "grant itself a role", RBAC, "POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
           {"metadata": {"name": "c"}}),
    Action("binder", "remove a policy", RBAC, "DELETE",
           f"/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/{BINDER_POD}"),
    *actions("inventory", RBAC, "PATCH", NODE, {
        "cordon a card": annotated("deviceshare.io/cordoned-cards"),
        "change a node": annotated("volcano.sh/mutex.lock"),
    }),
    Action("inventory", "change a pod", RBAC, "PATCH", POD, annotated(IDS)),
    Action("inventory", "bind a pod", RBAC, "POST", BINDING, binding()),
    Action("inventory", "change a PodGroup", RBAC, "PATCH", GROUP, {"status": {"phase": "Inqueue"}}),
    *reads("inventory", RBAC, {
        "read a Secret": SECRET,
        "list Secrets": "/api/v1/secrets",
        "read ConfigMaps of users": f"/api/v1/namespaces/{NAMESPACE}/configmaps",
    }),
    Action("inventory", "record an Event of the binder", EVENT_POLICY, "POST", EVENTS,
           event("new", "deviceshare-binder")),
    Action("inventory", "delete an Event", RBAC, "DELETE", f"{EVENTS}/others"),
    Action("placement", "bind a pod", RBAC, "POST", BINDING, binding()),
    *reads("placement", RBAC, {"list pods": "/api/v1/pods"}),
    *reads("metrics", RBAC, {"list pods": "/api/v1/pods", "list nodes": "/api/v1/nodes"}),
    *actions("tenant", ANNOTATIONS, "PATCH", POD, {
        "forge devices of a pod": annotated(IDS),
        "forge a signature": annotated("deviceshare.io/signature"),
        "remove a fence": annotated("deviceshare.io/fenced-claims", None),
    }),
    Action("tenant", "create a pod with forged devices", ANNOTATIONS, "POST", PODS,
           pod(annotations={IDS: "GPU-0,NVIDIA,39000,100:;"})),
    Action("tenant", "forge devices by a status", ANNOTATIONS, "PATCH", f"{POD}/status",
           annotated("hami.io/Ascend910B3-devices-allocated")),
    Action("tenant", "bind with forged devices", ANNOTATIONS, "POST", BINDING, binding(annotations={IDS: "x"})),
    *actions("tenant", PODGROUPS, "POST", GROUPS, {
        "create an admitted PodGroup": group(phase="Inqueue"),
        "create a running PodGroup": group(phase="Running"),
    }),
    *actions("tenant", PODGROUPS, "PATCH", GROUP, {
        "admit its PodGroup": {"status": {"phase": "Inqueue"}},
        "remove the phase of a PodGroup": {"status": {"phase": None}},
        "sign its PodGroup": annotated("deviceshare.io/admission"),
    }),
    *actions("tenant", QUEUE_POLICY, "POST", GROUPS, {
        "create a PodGroup in a foreign queue": group(queue=FOREIGN),
        "use a queue of other labels": group(queue="other-labels"),
    }),
    Action("tenant", "move a PodGroup to a foreign queue", QUEUE_POLICY, "PATCH", GROUP, {"spec": {"queue": FOREIGN}}),
    Action("tenant", "create a pod in a foreign queue", QUEUE_POLICY, "POST", PODS,
           pod(annotations={"scheduling.volcano.sh/queue-name": FOREIGN})),
    Action("tenant", "move a pod to a foreign queue by its status", QUEUE_POLICY, "PATCH", f"{POD}/status",
           annotated("volcano.sh/queue-name", FOREIGN)),
    Action("unknown plugin", "write devices", ANNOTATIONS, "PATCH", POD, annotated("hami.io/bind-phase", "success")),
]  # fmt: skip
WRITTEN = [
    vgpu_wire.NODE,
    vgpu_wire.TIME,
    vgpu_wire.IDS,
    vgpu_wire.INIT_IDS,
    vgpu_wire.TO_ALLOCATE,
    vgpu_wire.BIND_PHASE,
    vgpu_wire.BIND_TIME,
    gpu_share_wire.INDEX,
    gpu_share_wire.PREDICATE_TIME,
    gpu_share_wire.ASSIGNED,
    mindcluster_wire.CORES,
    mindcluster_wire.PREDICATE_TIME,
    mindcluster_wire.REAL,
    hami_vnpu_wire.NODE,
    hami_vnpu_wire.TIME,
    hami_vnpu_wire.BIND_PHASE,
    hami_vnpu_wire.BIND_TIME,
    hami_vnpu_wire.PREDICATE_TIME,
    SIGNATURE,
    FENCE,
    "hami.io/Ascend910B3-devices-allocated",
    "hami.io/Ascend910B3-devices-to-allocate",
    "huawei.com/Ascend910B3",
]
"""The annotations that families and the binder write."""
ALL_WRITTEN = dict.fromkeys(WRITTEN, "x")
ALLOWED = [
    *actions("binder", "", "POST", BINDING, {
        "bind with what families write": binding(annotations=ALL_WRITTEN),
        "bind a pod": binding(annotations={IDS: "x", "deviceshare.io/signature": "y"}),
    }),
    *actions("binder", "", "PATCH", POD, {
        "change what families write": {"metadata": {"annotations": ALL_WRITTEN}},
        "fence a pod": annotated("deviceshare.io/fenced-claims", "a,b"),
        "clear an allocation": annotated("volcano.sh/devices-to-allocate", ""),
    }),
    Action("binder", "report why a pod waits", "", "PATCH", f"{POD}/status",
           {"status": {"conditions": [NOT_READY, WAITS]}}),
    Action("binder", "nominate a node for a pod", "", "PATCH", f"{POD}/status",
           {"status": {"nominatedNodeName": "admission-node"}}),
    Action("binder", "evict a pod by its uid", "", "POST", f"{POD}/eviction", eviction(preconditions={"uid": "UID"})),
    Action("binder", "report why a pod of many annotations waits", "", "PATCH", f"{CROWDED}/status",
           {"status": {"conditions": [WAITS]}}),
    *actions("binder", "", "PATCH", NODE, {
        "lock a node": annotated("hami.io/mutex.lock"),
        "release a node": annotated("volcano.sh/mutex.lock", None),
    }),
    *actions("binder", "", "PATCH", GROUP, {
        "admit a PodGroup": {"status": {"phase": "Inqueue", "running": 1}},
        "sign an admission": annotated("deviceshare.io/admission"),
    }),
    Action("binder", "create the queue root", "", "POST", QUEUES, queue("root", reclaimable=False)),
    Action("binder", "report the usage of a queue", "", "PATCH", f"{QUEUE}/status", {"status": {"pending": 3}}),
    Action("binder", "record an Event", "", "POST", EVENTS, event("new", "deviceshare-binder")),
    Action("binder", "count an Event", "", "PUT", f"{EVENTS}/binders", counted("binders", "deviceshare-binder")),
    *reads("inventory", "", {
        "list pods": "/api/v1/pods",
        "list nodes": "/api/v1/nodes",
        "list claims of volumes": "/api/v1/persistentvolumeclaims",
        "list volumes": "/api/v1/persistentvolumes",
        "list classes of volumes": "/apis/storage.k8s.io/v1/storageclasses",
        "list limits of volumes": "/apis/storage.k8s.io/v1/csinodes",
        "list PodGroups": f"{VOLCANO}/podgroups",
        "read the configuration": CONFIGURATION,
    }),
    Action("inventory", "record an Event", "", "POST", EVENTS, event("new", "deviceshare")),
    *actions("tenant", "", "POST", PODS, {
        "create a pod": pod(annotations={"volcano.sh/gpu-index": "0", "mine": "x"}),
        "create a pod in its queue": pod(annotations={"scheduling.volcano.sh/queue-name": "own"}),
    }),
    Action("tenant", "change an image", "", "PATCH", POD,
           {"metadata": {"annotations": {"mine": "y"}, "labels": {"a": "b"}}}),
    Action("tenant", "bind without devices", "", "POST", BINDING, binding()),
    *actions("tenant", "", "POST", GROUPS, {
        "create a PodGroup": group(),
        "create a pending PodGroup": group(phase="Pending"),
        "create a PodGroup in its queue": group(queue="own"),
        "create a PodGroup in a queue of its labels": group(queue="labels"),
    }),
    Action("tenant", "change its PodGroup", "", "PATCH", GROUP,
           {"spec": {"minMember": 2}, "status": {"phase": "Pending"}}),
    Action("volcano", "admit a PodGroup", "", "PATCH", GROUP, {"status": {"phase": "Inqueue"}}),
    Action("volcano", "bind with devices", "", "POST", BINDING, binding(annotations={IDS: "x"})),
    Action("plugin", "write devices", "", "PATCH", POD, annotated("volcano.sh/bind-phase", "success")),
]  # fmt: skip
