"""The fields of pods that facts are decoded from; see :mod:`.views`."""

import msgspec

from deviceshare.objects.views import (
    Int32,
    LabelSelector,
    NodeSelector,
    Object,
    OwnedMetadata,
    Present,
    Quantities,
    SelectorTerm,
    View,
)


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


class PreferredTerm(View):
    """A term of a preferred node affinity."""

    weight: Int32 | None = None
    preference: SelectorTerm | None = None


class NodeAffinity(View):
    """``spec.affinity.nodeAffinity``."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: list[PreferredTerm] | None = None


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
    preemption_policy: str | None = None
    termination_grace_period_seconds: int | None = None
    topology_spread_constraints: list[SpreadConstraint] | None = None
    volumes: list[Volume] | None = None
    resource_claims: list[Present] | None = None
    host_network: bool | None = None


ABSENT = msgspec.Raw(b"null")
"""The bytes of an absent field."""


class PodCondition(View):
    """``status.conditions[]`` of a Pod."""

    type: str | None = None
    status: str | None = None
    reason: str | None = None
    last_transition_time: str | None = None


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

    metadata: OwnedMetadata
    spec: PodSpec | None = None
    status: PodStatus | None = None


class TemplateSpec(View):
    """``spec`` of a Pod: the fields of a request as bytes. The others are those of :class:`PodSpec`."""

    node_name: str | None = None
    scheduler_name: str | None = None
    priority: Int32 | None = None
    scheduling_gates: list[SchedulingGate] | None = None
    preemption_policy: str | None = None
    termination_grace_period_seconds: int | None = None
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

    metadata: OwnedMetadata
    spec: TemplateSpec
    status: TemplateStatus | None = None
