"""The fields of Kubernetes objects that facts are decoded from.

Unknown fields are skipped. Every field may be missing or null, as in handwritten manifests and objects of other
clients.
"""

from typing import Annotated

import msgspec

from deviceshare.model import Quantity

Quantities = dict[str, Quantity]
Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), lt=2**31)]


class View(msgspec.Struct, rename="camel", gc=False):
    """Base of all views: camelCase in JSON."""


class Present(View):
    """An object of which only the presence matters."""


class Metadata(View):
    """``metadata``."""

    name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None


class Object(View):
    """Base of all objects."""

    metadata: Metadata


class TaintView(View):
    """``spec.taints[]``."""

    key: str | None = None
    value: str | None = None
    effect: str | None = None


class Condition(View):
    """``status.conditions[]``."""

    type: str | None = None
    status: str | None = None


class NodeSpec(View):
    """``spec`` of a Node."""

    unschedulable: bool | None = None
    taints: list[TaintView] | None = None


class NodeStatus(View):
    """``status`` of a Node."""

    capacity: Quantities | None = None
    allocatable: Quantities | None = None
    conditions: list[Condition] | None = None


class NodeObject(Object):
    """A Node."""

    spec: NodeSpec | None = None
    status: NodeStatus | None = None


class ResourceRequirements(View):
    """``spec.containers[].resources``."""

    requests: Quantities | None = None
    limits: Quantities | None = None


class Port(View):
    """``spec.containers[].ports[]``."""

    container_port: Int32 | None = None
    host_port: Int32 | None = None
    host_ip: str | None = msgspec.field(default=None, name="hostIP")
    protocol: str | None = None


class Container(View):
    """``spec.containers[]`` and ``spec.initContainers[]``."""

    name: str | None = None
    resources: ResourceRequirements | None = None
    restart_policy: str | None = None
    ports: list[Port] | None = None


class SelectorRequirement(View):
    """``matchExpressions[]`` and ``matchFields[]``."""

    key: str | None = None
    operator: str | None = None
    values: list[str] | None = None


class SelectorTerm(View):
    """``nodeSelectorTerms[]``."""

    match_expressions: list[SelectorRequirement] | None = None
    match_fields: list[SelectorRequirement] | None = None


class NodeSelector(View):
    """A required node affinity."""

    node_selector_terms: list[SelectorTerm] | None = None


class PreferredTerm(View):
    """A term of a preferred node affinity."""

    weight: Int32 | None = None
    preference: SelectorTerm | None = None


class NodeAffinity(View):
    """``spec.affinity.nodeAffinity``."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: list[PreferredTerm] | None = None


class LabelSelector(View):
    """``labelSelector`` and ``namespaceSelector``."""

    match_labels: dict[str, str] | None = None
    match_expressions: list[SelectorRequirement] | None = None


class PodAffinityTerm(View):
    """A term of ``podAffinity`` and ``podAntiAffinity``.

    ``matchLabelKeys`` and ``mismatchLabelKeys`` are not read: the API server adds them to the selector.
    """

    label_selector: LabelSelector | None = None
    namespace_selector: LabelSelector | None = None
    namespaces: list[str] | None = None
    topology_key: str | None = None


class PreferredPodTerm(View):
    """A preferred term of ``podAffinity`` and ``podAntiAffinity``."""

    weight: Int32 | None = None
    pod_affinity_term: PodAffinityTerm | None = None


class PodAffinity(View):
    """``spec.affinity.podAffinity`` and ``podAntiAffinity``."""

    required_during_scheduling_ignored_during_execution: list[PodAffinityTerm] | None = None
    preferred_during_scheduling_ignored_during_execution: list[PreferredPodTerm] | None = None


class Affinity(View):
    """``spec.affinity``."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class TolerationView(View):
    """``spec.tolerations[]``."""

    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None


class SpreadConstraint(View):
    """``spec.topologySpreadConstraints[]``."""

    max_skew: Int32 | None = None
    topology_key: str | None = None
    when_unsatisfiable: str | None = None
    label_selector: LabelSelector | None = None
    match_label_keys: list[str] | None = None
    min_domains: Int32 | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None


class ClaimSource(View):
    """``spec.volumes[].persistentVolumeClaim``."""

    claim_name: str | None = None


class GcePersistentDisk(View):
    """``spec.volumes[].gcePersistentDisk``."""

    pd_name: str | None = None
    read_only: bool | None = None


class AwsElasticBlockStore(View):
    """``spec.volumes[].awsElasticBlockStore``."""

    volume_id: str | None = msgspec.field(default=None, name="volumeID")


class Iscsi(View):
    """``spec.volumes[].iscsi``."""

    iqn: str | None = None
    read_only: bool | None = None


class Rbd(View):
    """``spec.volumes[].rbd``."""

    monitors: list[str] | None = None
    pool: str | None = None
    image: str | None = None
    read_only: bool | None = None


class Volume(View):
    """``spec.volumes[]``: the volume types that may bind a pod to a node."""

    name: str | None = None
    persistent_volume_claim: ClaimSource | None = None
    ephemeral: Present | None = None
    gce_persistent_disk: GcePersistentDisk | None = None
    aws_elastic_block_store: AwsElasticBlockStore | None = None
    iscsi: Iscsi | None = None
    rbd: Rbd | None = None


class SchedulingGate(View):
    """``spec.schedulingGates[]``."""

    name: str | None = None


class PodSpec(View):
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


class Status(View):
    """``status`` of a PodGroup."""

    phase: str | None = None


ABSENT = msgspec.Raw(b"null")
"""The bytes of an absent field."""


class PodCondition(View):
    """``status.conditions[]`` of a Pod."""

    type: str | None = None
    reason: str | None = None


class ContainerStatus(View):
    """``status.containerStatuses[]`` and ``status.initContainerStatuses[]``."""

    name: str | None = None
    resources: ResourceRequirements | None = None
    allocated_resources: Quantities | None = None


class PodStatus(View):
    """``status`` of a Pod."""

    phase: str | None = None
    start_time: str | None = None
    resize: str | None = None
    conditions: list[PodCondition] | None = None
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None


class ReportedResources(View):
    """``status.containerStatuses[].resources``: the amounts as bytes."""

    requests: msgspec.Raw = ABSENT


class ReportedStatus(View):
    """``status.containerStatuses[]``: the amounts as bytes. The others are those of :class:`ContainerStatus`."""

    name: str | None = None
    resources: ReportedResources | None = None
    allocated_resources: msgspec.Raw = ABSENT


class TemplateStatus(View):
    """``status`` of a Pod: the fields of a resize as bytes. The others are those of :class:`PodStatus`."""

    phase: str | None = None
    start_time: str | None = None
    resize: str | None = None
    conditions: msgspec.Raw = ABSENT
    container_statuses: msgspec.Raw = ABSENT
    init_container_statuses: msgspec.Raw = ABSENT


class PodObject(Object):
    """A Pod."""

    spec: PodSpec | None = None
    status: PodStatus | None = None


class TemplateSpec(View):
    """``spec`` of a Pod: the fields of a request as bytes. The others are those of :class:`PodSpec`."""

    node_name: str | None = None
    scheduler_name: str | None = None
    priority: Int32 | None = None
    scheduling_gates: list[SchedulingGate] | None = None
    containers: msgspec.Raw = ABSENT
    init_containers: msgspec.Raw = ABSENT
    resources: msgspec.Raw = ABSENT
    overhead: msgspec.Raw = ABSENT
    node_selector: msgspec.Raw = ABSENT
    affinity: msgspec.Raw = ABSENT
    tolerations: msgspec.Raw = ABSENT
    topology_spread_constraints: msgspec.Raw = ABSENT
    volumes: msgspec.Raw = ABSENT
    resource_claims: msgspec.Raw = ABSENT
    host_network: msgspec.Raw = ABSENT


class TemplateObject(Object):
    """A Pod whose request is not decoded."""

    spec: TemplateSpec
    status: TemplateStatus | None = None


class NetworkTopology(View):
    """``spec.networkTopology`` of a PodGroup, and that of its sub-groups."""

    mode: str | None = None


class SubGroupPolicy(View):
    """``spec.subGroupPolicy[]`` of a PodGroup."""

    network_topology: NetworkTopology | None = None


class PodGroupSpec(View):
    """``spec`` of a PodGroup."""

    min_member: Int32 | None = None
    min_task_member: dict[str, Int32] | None = None
    min_resources: Quantities | None = None
    priority_class_name: str | None = None
    queue: str | None = None
    network_topology: NetworkTopology | None = None
    sub_group_policy: list[SubGroupPolicy] | None = None


class PodGroupObject(Object):
    """A PodGroup, ``scheduling.volcano.sh/v1beta1``."""

    spec: PodGroupSpec | None = None
    status: Status | None = None


class Guarantee(View):
    """``spec.guarantee`` of a Queue."""

    resource: Quantities | None = None


class QueueSpec(View):
    """``spec`` of a Queue."""

    parent: str | None = None
    weight: Int32 | None = None
    priority: Int32 | None = None
    capability: Quantities | None = None
    deserved: Quantities | None = None
    guarantee: Guarantee | None = None
    reclaimable: bool | None = None


class QueueStatus(View):
    """``status`` of a Queue."""

    state: str | None = None


class QueueObject(Object):
    """A Queue, ``scheduling.volcano.sh/v1beta1``."""

    spec: QueueSpec | None = None
    status: QueueStatus | None = None


class ConfigMapObject(Object):
    """A ConfigMap."""

    data: dict[str, str] | None = None
