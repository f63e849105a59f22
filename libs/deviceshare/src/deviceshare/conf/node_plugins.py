"""The arguments of Volcano's plugins that filter or score nodes: predicates, nodeorder and binpack.

Source of names and defaults: Volcano pkg/scheduler/plugins/{predicates,nodeorder,binpack}.
"""

import msgspec

PREDICATES, NODEORDER, BINPACK = "predicates", "nodeorder", "binpack"


class Predicates(msgspec.Struct, frozen=True):
    """The enabled predicates; all of them if the plugin is not configured."""

    unschedulable: bool = True
    """Cordoned nodes get no pods; off only if the whole plugin is (``enablePredicate: false``)."""
    node_affinity: bool = True
    """Node selector and required node affinity."""
    node_ports: bool = True
    taint_toleration: bool = True
    pod_affinity: bool = True
    topology_spread: bool = True
    volume_binding: bool = True
    volume_zone: bool = True
    volume_limits: bool = True

    def refuses(self, field: str) -> bool:
        """Return whether pods with this field, which is not evaluated, must wait."""
        if field.startswith("spec.affinity."):
            return self.pod_affinity
        if field.startswith("spec.topologySpreadConstraints"):
            return self.topology_spread
        if field.startswith("spec.volumes"):
            return self.volume_binding or self.volume_zone or self.volume_limits
        return True


ALL_PREDICATES = Predicates()
NO_PREDICATES = Predicates(*(False for _ in Predicates.__struct_fields__))

PREDICATE_ARGUMENTS = {
    "predicate.NodeAffinityEnable": "node_affinity",
    "predicate.NodePortsEnable": "node_ports",
    "predicate.TaintTolerationEnable": "taint_toleration",
    "predicate.PodAffinityEnable": "pod_affinity",
    "predicate.PodTopologySpreadEnable": "topology_spread",
    "predicate.VolumeBindingEnable": "volume_binding",
    "predicate.VolumeZoneEnable": "volume_zone",
    "predicate.NodeVolumeLimitsEnable": "volume_limits",
}
"""The fields of :class:`Predicates` by the names of their arguments."""
PREDICATES_WITHOUT_EFFECT = (
    "predicate.CacheEnable",
    "predicate.DynamicResourceAllocationEnable",
    "volumebinding.bindTimeoutSeconds",
    "volumebinding.shape",
    "volumebinding.weight",
    "dynamicresources.filterTimeoutSeconds",
)
"""Arguments of Volcano without an effect here."""


class NodeOrder(msgspec.Struct, frozen=True):
    """The weights of the scores of ``nodeorder``; each unweighted score is 0 to 100; the weight 0 disables a score."""

    least_requested: int = 1
    most_requested: int = 0
    node_affinity: int = 2
    balanced_resource: int = 1
    taint_toleration: int = 3
    pod_affinity: int = 2
    image_locality: int = 1
    topology_spread: int = 2


NODEORDER_ARGUMENTS = {
    "leastrequested.weight": "least_requested",
    "mostrequested.weight": "most_requested",
    "nodeaffinity.weight": "node_affinity",
    "balancedresource.weight": "balanced_resource",
    "tainttoleration.weight": "taint_toleration",
    "podaffinity.weight": "pod_affinity",
    "imagelocality.weight": "image_locality",
    "podtopologyspread.weight": "topology_spread",
}
"""The fields of :class:`NodeOrder` by the names of their arguments. The last three have no effect: the facts do not
contain what they evaluate."""


class Binpack(msgspec.Struct, frozen=True):
    """The weights of ``binpack``: of the score (0 to 100 unweighted) and of the resources in it."""

    weight: int = 1
    resources: tuple[tuple[str, int], ...] = (("cpu", 1), ("memory", 1))
    """CPU, memory, then others by name: Volcano sums the scores of resources in this order."""


BINPACK_WEIGHT, BINPACK_CPU, BINPACK_MEMORY = "binpack.weight", "binpack.cpu", "binpack.memory"
BINPACK_RESOURCES = "binpack.resources"
"""The list of resources besides CPU and memory; ``binpack.resources.NAME`` is the weight of one."""
