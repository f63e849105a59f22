"""The fields of Kubernetes objects that facts need.

Unknown fields are ignored; every field may be missing or null, as in manifests and in objects of other API clients.
"""

from typing import Annotated

import msgspec

from deviceshare.model import Quantity

Quantities = dict[str, Quantity]
Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), lt=2**31)]


class ApiView(msgspec.Struct, rename="camel", gc=False):
    """Base of all views: camelCase in JSON."""


class Present(ApiView):
    """A value of which only the presence matters."""


class Metadata(ApiView):
    """``metadata``."""

    name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None


class Object(ApiView):
    """The fields of every object."""

    metadata: Metadata


class TaintView(ApiView):
    """``spec.taints[]``."""

    key: str | None = None
    value: str | None = None
    effect: str | None = None


class Condition(ApiView):
    """``status.conditions[]``."""

    type: str | None = None
    status: str | None = None


class NodeSpec(ApiView):
    """``spec`` of a Node."""

    unschedulable: bool | None = None
    taints: list[TaintView] | None = None


class NodeStatus(ApiView):
    """``status`` of a Node."""

    capacity: Quantities | None = None
    allocatable: Quantities | None = None
    conditions: list[Condition] | None = None


class NodeObject(Object):
    """A Node."""

    spec: NodeSpec | None = None
    status: NodeStatus | None = None


class ResourceRequirements(ApiView):
    """``spec.containers[].resources``."""

    requests: Quantities | None = None
    limits: Quantities | None = None


class Port(ApiView):
    """``spec.containers[].ports[]``."""

    container_port: Int32 | None = None
    host_port: Int32 | None = None
    host_ip: str | None = msgspec.field(default=None, name="hostIP")
    protocol: str | None = None


class Container(ApiView):
    """``spec.containers[]`` and ``spec.initContainers[]``."""

    name: str | None = None
    resources: ResourceRequirements | None = None
    restart_policy: str | None = None
    ports: list[Port] | None = None


class SelectorRequirement(ApiView):
    """``matchExpressions[]`` and ``matchFields[]``."""

    key: str | None = None
    operator: str | None = None
    values: list[str] | None = None


class SelectorTerm(ApiView):
    """``nodeSelectorTerms[]``."""

    match_expressions: list[SelectorRequirement] | None = None
    match_fields: list[SelectorRequirement] | None = None


class NodeSelector(ApiView):
    """A required node affinity."""

    node_selector_terms: list[SelectorTerm] | None = None


class PreferredTerm(ApiView):
    """A term of a preferred node affinity."""

    weight: Int32 | None = None
    preference: SelectorTerm | None = None


class NodeAffinity(ApiView):
    """``spec.affinity.nodeAffinity``."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: list[PreferredTerm] | None = None


class PodAffinity(ApiView):
    """The required terms of ``spec.affinity.podAffinity`` and ``podAntiAffinity``."""

    required_during_scheduling_ignored_during_execution: list[Present] | None = None


class Affinity(ApiView):
    """``spec.affinity``."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class TolerationView(ApiView):
    """``spec.tolerations[]``."""

    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None


class SpreadConstraint(ApiView):
    """``spec.topologySpreadConstraints[]``."""

    when_unsatisfiable: str | None = None


class Volume(ApiView):
    """``spec.volumes[]``: the kinds that tie a pod to nodes."""

    name: str | None = None
    persistent_volume_claim: Present | None = None
    ephemeral: Present | None = None


class SchedulingGate(ApiView):
    """``spec.schedulingGates[]``."""

    name: str | None = None


class PodSpec(ApiView):
    """``spec`` of a Pod."""

    node_name: str | None = None
    scheduler_name: str | None = None
    priority: Int32 | None = None
    containers: list[Container] | None = None
    init_containers: list[Container] | None = None
    resources: ResourceRequirements | None = None
    overhead: Quantities | None = None
    node_selector: dict[str, str] | None = None
    affinity: Affinity | None = None
    tolerations: list[TolerationView] | None = None
    scheduling_gates: list[SchedulingGate] | None = None
    topology_spread_constraints: list[SpreadConstraint] | None = None
    volumes: list[Volume] | None = None
    resource_claims: list[Present] | None = None
    host_network: bool | None = None


class PodStatus(ApiView):
    """``status`` of a Pod."""

    phase: str | None = None


class PodObject(Object):
    """A Pod."""

    spec: PodSpec | None = None
    status: PodStatus | None = None


class PodGroupSpec(ApiView):
    """``spec`` of a PodGroup."""

    min_member: Int32 | None = None
    min_task_member: dict[str, Int32] | None = None
    min_resources: Quantities | None = None
    priority_class_name: str | None = None
    queue: str | None = None


class PodGroupStatus(ApiView):
    """``status`` of a PodGroup."""

    phase: str | None = None


class PodGroupObject(Object):
    """A PodGroup, ``scheduling.volcano.sh/v1beta1``."""

    spec: PodGroupSpec | None = None
    status: PodGroupStatus | None = None


class Guarantee(ApiView):
    """``spec.guarantee`` of a Queue."""

    resource: Quantities | None = None


class QueueSpec(ApiView):
    """``spec`` of a Queue."""

    parent: str | None = None
    weight: Int32 | None = None
    priority: Int32 | None = None
    capability: Quantities | None = None
    deserved: Quantities | None = None
    guarantee: Guarantee | None = None
    reclaimable: bool | None = None


class QueueStatus(ApiView):
    """``status`` of a Queue."""

    state: str | None = None


class QueueObject(Object):
    """A Queue, ``scheduling.volcano.sh/v1beta1``."""

    spec: QueueSpec | None = None
    status: QueueStatus | None = None


class PriorityClassObject(Object):
    """A PriorityClass."""

    value: Int32 | None = None
    global_default: bool | None = None


class ConfigMapObject(Object):
    """A ConfigMap."""

    data: dict[str, str] | None = None
