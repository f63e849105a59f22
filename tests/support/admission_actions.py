"""The table of actions of ``tests/security/test_admission.py``: who, what, and which layer denies."""

from typing import Any, NamedTuple

from deviceshare.families.hami_vnpu import wire as hami_vnpu_wire
from deviceshare.families.mindcluster import wire as mindcluster_wire
from deviceshare.families.vgpu import wire as vgpu_wire
from deviceshare.families.volcano_gpu import wire as gpu_share_wire
from deviceshare.model import FENCE
from deviceshare.model.signatures import SIGNATURE

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


def annotated(name: str, value: str | None = "x") -> dict[str, Any]:
    return {"metadata": {"annotations": {name: value}}}


def pod(name: str = "new", **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE, **metadata},
        "spec": {"schedulerName": "deviceshare", "containers": [{"name": "c", "image": "busybox"}]},
    }


def group(name: str = "new", queue: str = "default", phase: str = "", **metadata: Any) -> dict[str, Any]:
    found = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": NAMESPACE, **metadata},
        "spec": {"minMember": 1, "queue": queue},
    }
    return found | ({"status": {"phase": phase}} if phase else {})


def queue(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {"weight": 1, **spec},
    }


def event(name: str, reporter: str) -> dict[str, Any]:
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "regarding": {"kind": "Pod", "namespace": NAMESPACE, "name": "p"},
        "type": "Normal",
        "reason": "Test",
        "action": "Binding",
        "note": "n",
        "reportingController": reporter,
        "reportingInstance": reporter,
        "eventTime": "2026-01-01T00:00:00.000000Z",
    }


def counted(name: str, reporter: str) -> dict[str, Any]:
    series = {"count": 2, "lastObservedTime": "2026-01-01T00:00:01.000000Z"}
    return {**event(name, reporter), "series": series}


def binding(**metadata: Any) -> dict[str, Any]:
    """Return a Binding of the pod; its uid and revision are inserted where the metadata does not name others."""
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "p", "namespace": NAMESPACE, "uid": "UID", "resourceVersion": "REVISION", **metadata},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "admission-node"},
    }


TAINT = {"spec": {"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]}}
BINDER_POD, BINDER_NODE = "deviceshare-binder-pods", "deviceshare-binder-nodes"
BINDER_BINDING, BINDER_VOLCANO = "deviceshare-binder-bindings", "deviceshare-binder-volcano"
ANNOTATIONS, PODGROUPS, EVENT_POLICY = "deviceshare-annotations", "deviceshare-podgroups", "deviceshare-events"
QUEUE_POLICY, FOREIGN = "deviceshare-queues", "admission-queue"
SERVED = {
    FOREIGN: {"deviceshare.io/namespaces": "team-a, team-b"},
    "own": {"deviceshare.io/namespaces": f"team-a, {NAMESPACE}"},
    "labels": {"deviceshare.io/namespace-selector": f"kubernetes.io/metadata.name={NAMESPACE}"},
    "other-labels": {"deviceshare.io/namespace-selector": f"kubernetes.io/metadata.name={NAMESPACE},team=a"},
}
"""The queues that serve some namespaces alone, with their annotations."""
DENIED = [
    Action("binder", "change an image", BINDER_POD, "PATCH", POD, {"spec": {"containers": None, "priority": None}}),
    Action("binder", "end a pod by a deadline", BINDER_POD, "PATCH", POD, {"spec": {"activeDeadlineSeconds": 1}}),
    Action("binder", "change a label of a pod", BINDER_POD, "PATCH", POD, {"metadata": {"labels": {"a": "b"}}}),
    Action("binder", "remove a label of a pod", BINDER_POD, "PATCH", POD, {"metadata": {"labels": {"app": None}}}),
    Action("binder", "add a finalizer to a pod", BINDER_POD, "PATCH", POD, {"metadata": {"finalizers": ["a.io/b"]}}),
    Action(
        "binder",
        "change the owners of a pod",
        BINDER_POD,
        "PATCH",
        POD,
        {"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "b"}]}},
    ),
    Action("binder", "change another annotation of a pod", BINDER_POD, "PATCH", POD, annotated("team")),
    Action("binder", "remove another annotation of a pod", BINDER_POD, "PATCH", POD, annotated("mine", None)),
    Action(
        "binder",
        "hide a change among many annotations",
        BINDER_POD,
        "PATCH",
        POD,
        {"metadata": {"annotations": {"mine": "y", **{f"deviceshare.io/a{number}": "x" for number in range(2_001)}}}},
    ),
    Action("binder", "change a pod of many annotations", BINDER_POD, "PATCH", CROWDED, annotated("mine/a7", "y")),
    Action(
        "binder", "change the phase of a pod", BINDER_POD, "PATCH", f"{POD}/status", {"status": {"phase": "Failed"}}
    ),
    Action(
        "binder",
        "change another condition",
        BINDER_POD,
        "PATCH",
        f"{POD}/status",
        {"status": {"conditions": [{"type": "Ready", "status": "True"}, WAITS]}},
    ),
    Action(
        "binder", "remove another condition", BINDER_POD, "PATCH", f"{POD}/status", {"status": {"conditions": [WAITS]}}
    ),
    Action(
        "binder",
        "set PodScheduled to True",
        BINDER_POD,
        "PATCH",
        f"{POD}/status",
        {"status": {"conditions": [{"type": "Ready", "status": "False"}, {"type": "PodScheduled", "status": "True"}]}},
    ),
    Action(
        "binder",
        "change the IP of a pod",
        BINDER_POD,
        "PATCH",
        f"{POD}/status",
        {"status": {"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}]}},
    ),
    Action(
        "binder",
        "change a label by a status",
        BINDER_POD,
        "PATCH",
        f"{POD}/status",
        {"metadata": {"labels": {"a": "b"}}},
    ),
    Action(
        "binder",
        "bind with another annotation",
        BINDER_BINDING,
        "POST",
        f"{POD}/binding",
        binding(annotations={"a": "b"}),
    ),
    Action("binder", "bind with a label", BINDER_BINDING, "POST", f"{POD}/binding", binding(labels={"a": "b"})),
    Action("binder", "bind at any revision", BINDER_BINDING, "POST", f"{POD}/binding", binding(resourceVersion="")),
    Action("binder", "bind by name alone", BINDER_BINDING, "POST", f"{POD}/binding", binding(uid="")),
    Action("binder", "create a pod", RBAC, "POST", PODS, pod()),
    Action("binder", "delete a pod", RBAC, "DELETE", POD),
    Action(
        "binder",
        "evict a pod",
        RBAC,
        "POST",
        f"{POD}/eviction",
        {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p", "namespace": NAMESPACE}},
    ),
    Action("binder", "run a command in a pod", RBAC, "POST", f"{POD}/exec?command=sh&stdout=true"),
    Action("binder", "add an ephemeral container", RBAC, "PATCH", f"{POD}/ephemeralcontainers", {"spec": {}}),
    Action("binder", "read a Secret", RBAC, "GET", f"/api/v1/namespaces/{SYSTEM}/secrets/deviceshare-signing"),
    Action("binder", "list pods", RBAC, "GET", "/api/v1/pods"),
    Action("binder", "change a taint", BINDER_NODE, "PATCH", NODE, TAINT),
    Action("binder", "cordon a node", BINDER_NODE, "PATCH", NODE, {"spec": {"unschedulable": True}}),
    Action("binder", "change a label of a node", BINDER_NODE, "PATCH", NODE, {"metadata": {"labels": {"a": "b"}}}),
    Action(
        "binder", "change the cards of a node", BINDER_NODE, "PATCH", NODE, annotated("volcano.sh/node-vgpu-register")
    ),
    Action("binder", "cordon a card", BINDER_NODE, "PATCH", NODE, annotated("deviceshare.io/cordoned-cards")),
    Action("inventory", "cordon a card", RBAC, "PATCH", NODE, annotated("deviceshare.io/cordoned-cards")),
    Action("binder", "remove an annotation of a node", BINDER_NODE, "PATCH", NODE, annotated("mine", None)),
    Action(
        "binder",
        "change the status of a node",
        RBAC,
        "PATCH",
        f"{NODE}/status",
        {"status": {"capacity": {"cpu": "99"}}},
    ),
    Action("binder", "delete a node", RBAC, "DELETE", NODE),
    Action("binder", "change the queue of a PodGroup", BINDER_VOLCANO, "PATCH", GROUP, {"spec": {"queue": "other"}}),
    Action(
        "binder", "change a label of a PodGroup", BINDER_VOLCANO, "PATCH", GROUP, {"metadata": {"labels": {"a": "b"}}}
    ),
    Action("binder", "change an annotation of a PodGroup", BINDER_VOLCANO, "PATCH", GROUP, annotated("mine", "b")),
    Action("binder", "create a queue", BINDER_VOLCANO, "POST", QUEUES, queue("mine")),
    Action(
        "binder",
        "create a root with a capability",
        BINDER_VOLCANO,
        "POST",
        QUEUES,
        queue("root", capability={"cpu": 1}),
    ),
    Action("binder", "change the weight of a queue", RBAC, "PATCH", QUEUE, {"spec": {"weight": 9}}),
    Action("binder", "record an Event of another reporter", EVENT_POLICY, "POST", EVENTS, event("new", "kubelet")),
    Action(
        "binder",
        "overwrite an Event of another reporter",
        EVENT_POLICY,
        "PUT",
        f"{EVENTS}/others",
        counted("others", "kubelet"),
    ),
    Action("binder", "change a ConfigMap", RBAC, "POST", CONFIGURATION, {"metadata": {"name": "c"}}),
    Action(
        "binder",
        "grant itself a role",
        RBAC,
        "POST",
        "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
        {"metadata": {"name": "c"}},
    ),
    Action(
        "binder",
        "remove a policy",
        RBAC,
        "DELETE",
        f"/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/{BINDER_POD}",
    ),
    Action("inventory", "change a pod", RBAC, "PATCH", POD, annotated(IDS)),
    Action("inventory", "bind a pod", RBAC, "POST", f"{POD}/binding", binding()),
    Action("inventory", "change a node", RBAC, "PATCH", NODE, annotated("volcano.sh/mutex.lock")),
    Action("inventory", "change a PodGroup", RBAC, "PATCH", GROUP, {"status": {"phase": "Inqueue"}}),
    Action("inventory", "read a Secret", RBAC, "GET", f"/api/v1/namespaces/{SYSTEM}/secrets/deviceshare-signing"),
    Action("inventory", "list Secrets", RBAC, "GET", "/api/v1/secrets"),
    Action("inventory", "read ConfigMaps of users", RBAC, "GET", f"/api/v1/namespaces/{NAMESPACE}/configmaps"),
    Action(
        "inventory", "record an Event of the binder", EVENT_POLICY, "POST", EVENTS, event("new", "deviceshare-binder")
    ),
    Action("inventory", "delete an Event", RBAC, "DELETE", f"{EVENTS}/others"),
    Action("placement", "list pods", RBAC, "GET", "/api/v1/pods"),
    Action("placement", "bind a pod", RBAC, "POST", f"{POD}/binding", binding()),
    Action("metrics", "list pods", RBAC, "GET", "/api/v1/pods"),
    Action("metrics", "list nodes", RBAC, "GET", "/api/v1/nodes"),
    Action(
        "tenant",
        "create a pod with forged devices",
        ANNOTATIONS,
        "POST",
        PODS,
        pod(annotations={IDS: "GPU-0,NVIDIA,39000,100:;"}),
    ),
    Action("tenant", "forge devices of a pod", ANNOTATIONS, "PATCH", POD, annotated(IDS)),
    Action("tenant", "forge a signature", ANNOTATIONS, "PATCH", POD, annotated("deviceshare.io/signature")),
    Action("tenant", "remove a fence", ANNOTATIONS, "PATCH", POD, annotated("deviceshare.io/fenced-claims", None)),
    Action(
        "tenant",
        "forge devices by a status",
        ANNOTATIONS,
        "PATCH",
        f"{POD}/status",
        annotated("hami.io/Ascend910B3-devices-allocated"),
    ),
    Action(
        "tenant", "bind with forged devices", ANNOTATIONS, "POST", f"{POD}/binding", binding(annotations={IDS: "x"})
    ),
    Action("tenant", "create an admitted PodGroup", PODGROUPS, "POST", GROUPS, group(phase="Inqueue")),
    Action("tenant", "create a running PodGroup", PODGROUPS, "POST", GROUPS, group(phase="Running")),
    Action("tenant", "admit its PodGroup", PODGROUPS, "PATCH", GROUP, {"status": {"phase": "Inqueue"}}),
    Action("tenant", "remove the phase of a PodGroup", PODGROUPS, "PATCH", GROUP, {"status": {"phase": None}}),
    Action("tenant", "sign its PodGroup", PODGROUPS, "PATCH", GROUP, annotated("deviceshare.io/admission")),
    Action(
        "tenant", "create a PodGroup in a foreign queue", QUEUE_POLICY, "POST", GROUPS, group(queue="admission-queue")
    ),
    Action("tenant", "move a PodGroup to a foreign queue", QUEUE_POLICY, "PATCH", GROUP, {"spec": {"queue": FOREIGN}}),
    Action(
        "tenant",
        "create a pod in a foreign queue",
        QUEUE_POLICY,
        "POST",
        PODS,
        pod(annotations={"scheduling.volcano.sh/queue-name": FOREIGN}),
    ),
    Action(
        "tenant",
        "move a pod to a foreign queue by its status",
        QUEUE_POLICY,
        "PATCH",
        f"{POD}/status",
        annotated("volcano.sh/queue-name", FOREIGN),
    ),
    Action("tenant", "use a queue of other labels", QUEUE_POLICY, "POST", GROUPS, group(queue="other-labels")),
    Action("unknown plugin", "write devices", ANNOTATIONS, "PATCH", POD, annotated("hami.io/bind-phase", "success")),
]
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
    Action("binder", "bind with what families write", "", "POST", f"{POD}/binding", binding(annotations=ALL_WRITTEN)),
    Action("binder", "change what families write", "", "PATCH", POD, {"metadata": {"annotations": ALL_WRITTEN}}),
    Action("tenant", "create a PodGroup in its queue", "", "POST", GROUPS, group(queue="own")),
    Action("tenant", "create a PodGroup in a queue of its labels", "", "POST", GROUPS, group(queue="labels")),
    Action(
        "tenant",
        "create a pod in its queue",
        "",
        "POST",
        PODS,
        pod(annotations={"scheduling.volcano.sh/queue-name": "own"}),
    ),
    Action("binder", "fence a pod", "", "PATCH", POD, annotated("deviceshare.io/fenced-claims", "a,b")),
    Action("binder", "clear an allocation", "", "PATCH", POD, annotated("volcano.sh/devices-to-allocate", "")),
    Action(
        "binder",
        "report why a pod waits",
        "",
        "PATCH",
        f"{POD}/status",
        {"status": {"conditions": [{"type": "Ready", "status": "False"}, WAITS]}},
    ),
    Action(
        "binder",
        "bind a pod",
        "",
        "POST",
        f"{POD}/binding",
        binding(annotations={IDS: "x", "deviceshare.io/signature": "y"}),
    ),
    Action(
        "binder",
        "report why a pod of many annotations waits",
        "",
        "PATCH",
        f"{CROWDED}/status",
        {"status": {"conditions": [WAITS]}},
    ),
    Action("binder", "lock a node", "", "PATCH", NODE, annotated("hami.io/mutex.lock")),
    Action("binder", "release a node", "", "PATCH", NODE, annotated("volcano.sh/mutex.lock", None)),
    Action("binder", "admit a PodGroup", "", "PATCH", GROUP, {"status": {"phase": "Inqueue", "running": 1}}),
    Action("binder", "sign an admission", "", "PATCH", GROUP, annotated("deviceshare.io/admission")),
    Action("binder", "create the queue root", "", "POST", QUEUES, queue("root", reclaimable=False)),
    Action("binder", "report the usage of a queue", "", "PATCH", f"{QUEUE}/status", {"status": {"pending": 3}}),
    Action("binder", "record an Event", "", "POST", EVENTS, event("new", "deviceshare-binder")),
    Action("binder", "count an Event", "", "PUT", f"{EVENTS}/binders", counted("binders", "deviceshare-binder")),
    Action("inventory", "list pods", "", "GET", "/api/v1/pods"),
    Action("inventory", "list nodes", "", "GET", "/api/v1/nodes"),
    Action("inventory", "list claims of volumes", "", "GET", "/api/v1/persistentvolumeclaims"),
    Action("inventory", "list volumes", "", "GET", "/api/v1/persistentvolumes"),
    Action("inventory", "list classes of volumes", "", "GET", "/apis/storage.k8s.io/v1/storageclasses"),
    Action("inventory", "list limits of volumes", "", "GET", "/apis/storage.k8s.io/v1/csinodes"),
    Action("inventory", "list PodGroups", "", "GET", f"{VOLCANO}/podgroups"),
    Action("inventory", "read the configuration", "", "GET", CONFIGURATION),
    Action("inventory", "record an Event", "", "POST", EVENTS, event("new", "deviceshare")),
    Action("tenant", "create a pod", "", "POST", PODS, pod(annotations={"volcano.sh/gpu-index": "0", "mine": "x"})),
    Action(
        "tenant",
        "change an image",
        "",
        "PATCH",
        POD,
        {"metadata": {"annotations": {"mine": "y"}, "labels": {"a": "b"}}},
    ),
    Action("tenant", "bind without devices", "", "POST", f"{POD}/binding", binding()),
    Action("tenant", "create a PodGroup", "", "POST", GROUPS, group()),
    Action("tenant", "create a pending PodGroup", "", "POST", GROUPS, group(phase="Pending")),
    Action(
        "tenant", "change its PodGroup", "", "PATCH", GROUP, {"spec": {"minMember": 2}, "status": {"phase": "Pending"}}
    ),
    Action("volcano", "admit a PodGroup", "", "PATCH", GROUP, {"status": {"phase": "Inqueue"}}),
    Action("volcano", "bind with devices", "", "POST", f"{POD}/binding", binding(annotations={IDS: "x"})),
    Action("plugin", "write devices", "", "PATCH", POD, annotated("volcano.sh/bind-phase", "success")),
]
