"""What the arguments of Volcano's plugins that look at nodes say: predicates, nodeorder and binpack.

Names and defaults are Volcano's (pkg/scheduler/plugins/{predicates,nodeorder,binpack}).
"""

import msgspec

PREDICATES, NODEORDER, BINPACK = "predicates", "nodeorder", "binpack"


class Predicates(msgspec.Struct, frozen=True):
    """Which of a pod's demands on nodes count. All do where the plugin is not configured."""

    unschedulable: bool = True
    """Cordoned nodes get no pods. Off only with the whole plugin (``enablePredicate: false``)."""
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
        """Return whether a pod waits for that it asks in this field, which nobody evaluates."""
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
"""Arguments that Volcano knows and that change nothing here."""


class NodeOrder(msgspec.Struct, frozen=True):
    """The weights of the scores of ``nodeorder``, each from 0 to 100 before it is weighed; 0 turns one off."""

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
"""The fields of :class:`NodeOrder` by the names of their arguments. The last three are read, and count 0 for all nodes:
what they look at is not known here."""


class Binpack(msgspec.Struct, frozen=True):
    """The weights of ``binpack``: of the whole score, 0 to 100 before it is weighed, and of the resources in it."""

    weight: int = 1
    resources: tuple[tuple[str, int], ...] = (("cpu", 1), ("memory", 1))
    """CPU, memory, then the others by name: Volcano adds up the scores of the resources in this order."""


BINPACK_WEIGHT, BINPACK_CPU, BINPACK_MEMORY = "binpack.weight", "binpack.cpu", "binpack.memory"
BINPACK_RESOURCES = "binpack.resources"
"""A list of resources beside CPU and memory; ``binpack.resources.NAME`` is the weight of one."""
