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


class OwnerReference(View):
    """``metadata.ownerReferences[]``."""

    kind: str | None = None
    name: str | None = None
    uid: str | None = None
    controller: bool | None = None


class OwnedMetadata(Metadata):
    """``metadata`` with owners."""

    owner_references: list[OwnerReference] | None = None


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


class LabelSelector(View):
    """``labelSelector`` and ``namespaceSelector``."""

    match_labels: dict[str, str] | None = None
    match_expressions: list[SelectorRequirement] | None = None


class Status(View):
    """``status`` of a PodGroup."""

    phase: str | None = None


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


class BudgetSpec(View):
    """``spec`` of a PodDisruptionBudget."""

    min_available: Int32 | str | None = None
    max_unavailable: Int32 | str | None = None
    selector: LabelSelector | None = None


class BudgetStatus(View):
    """``status`` of a PodDisruptionBudget."""

    disruptions_allowed: Int32 | None = None


class BudgetObject(Object):
    """A PodDisruptionBudget."""

    spec: BudgetSpec | None = None
    status: BudgetStatus | None = None


class ConfigMapObject(Object):
    """A ConfigMap."""

    data: dict[str, str] | None = None
