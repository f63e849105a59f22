"""Volcano's plugins that filter or score nodes (predicates, nodeorder and binpack), and reading their arguments.

Source of names and defaults: Volcano pkg/scheduler/plugins/{predicates,nodeorder,binpack}.
"""

from collections.abc import Iterable, Mapping
from math import inf

import msgspec
from msgspec.structs import replace

from deviceshare.conf.known import OLD_FLAGS
from deviceshare.conf.reading import ConfField
from deviceshare.model import as_text

PREDICATES, NODEORDER, BINPACK = "predicates", "nodeorder", "binpack"


class Proportion(msgspec.Struct, frozen=True):
    """How much of a node's CPU and memory other pods leave for each free unit of a resource.

    ``cpu`` in cores, ``memory`` in GB (10^9 bytes). Source: Volcano pkg/scheduler/plugins/predicates/proportional.go.
    """

    resource: str
    cpu: float = 1.0
    memory: float = 1.0


class Predicates(msgspec.Struct, frozen=True):
    """The enabled predicates; all of them if the plugin is not configured."""

    unschedulable: bool = True
    """Cordoned nodes get no pods; off only if the whole plugin is (``enablePredicate: false``)."""
    node_affinity: bool = True
    """Node selector and required node affinity."""
    node_ports: bool = True
    taint_toleration: bool = True
    pod_affinity: bool = True
    """Required inter-pod affinity and anti-affinity."""
    topology_spread: bool = True
    """Topology spread with ``DoNotSchedule``."""
    volume_binding: bool = True
    volume_zone: bool = True
    volume_limits: bool = True
    volume_restrictions: bool = True
    """Volumes that one pod may use at a time; off only if the whole plugin is: Volcano does not have it."""
    proportions: tuple[Proportion, ...] = ()
    """Of the resources of ``predicate.resources``, with ``predicate.ProportionalEnable``."""
    bind_timeout: float = 600.0
    """Seconds for which a pod waits until its volumes are bound."""

    def refuses(self, field: str) -> bool:
        """Return whether pods with this field, which is not evaluated, must wait.

        Volumes are such fields in facts of earlier versions.
        """
        if field.startswith("spec.volumes"):
            return self.volume_binding or self.volume_zone or self.volume_limits
        return True


ALL_PREDICATES = Predicates()
NO_PREDICATES = Predicates(False, False, False, False, False, False, False, False, False, False)

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
PROPORTIONAL, PROPORTIONAL_RESOURCES = "predicate.ProportionalEnable", "predicate.resources"
"""The switch, and the list of resources; ``predicate.resources.NAME.cpu`` and ``.memory`` are the rates of one."""
_LARGEST_RATE = 1e6
_OF_SHARED_CARDS = "volcano.sh/"
"""How the resources of shared cards begin: cards are not counted as amounts of a node."""
BIND_TIMEOUT, LONGEST_BIND_TIMEOUT = "volumebinding.bindTimeoutSeconds", 86_400
PREDICATES_WITHOUT_EFFECT = (
    "predicate.CacheEnable",
    "predicate.DynamicResourceAllocationEnable",
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
"""The fields of :class:`NodeOrder` by the names of their arguments. That of image locality has no effect: facts do not
contain the images of nodes."""


class Binpack(msgspec.Struct, frozen=True):
    """The weights of ``binpack``: of the score (0 to 100 unweighted) and of the resources in it."""

    weight: int = 1
    resources: tuple[tuple[str, int], ...] = (("cpu", 1), ("memory", 1))
    """CPU, memory, then others by name: Volcano sums the scores of resources in this order."""


BINPACK_WEIGHT, BINPACK_CPU, BINPACK_MEMORY = "binpack.weight", "binpack.cpu", "binpack.memory"
BINPACK_RESOURCES = "binpack.resources"
"""The list of resources besides CPU and memory; ``binpack.resources.NAME`` is the weight of one."""

Arguments = Mapping[str, ConfField]
"""Arguments of one plugin by name."""

LARGEST_WEIGHT = 1_000_000


def read_predicates(arguments: Arguments, enabled: bool) -> Predicates:
    """Return the enabled predicates; ``enabled``: the plugin's function ``Predicate`` is on."""
    names = _listed(arguments, PROPORTIONAL_RESOURCES)
    rates = {(name, of): f"{PROPORTIONAL_RESOURCES}.{name}.{of}" for name in names for of in ("cpu", "memory")}
    switches = (*PREDICATE_ARGUMENTS, *PREDICATES_WITHOUT_EFFECT, *OLD_FLAGS)
    switches = (*switches, PROPORTIONAL, PROPORTIONAL_RESOURCES, BIND_TIMEOUT)
    _check_names(_without_unlisted(arguments, PROPORTIONAL_RESOURCES, rates.values()), (*switches, *rates.values()))
    timeout = ALL_PREDICATES.bind_timeout
    if _is_given(arguments, BIND_TIMEOUT):
        timeout = float(arguments[BIND_TIMEOUT].number(1, LONGEST_BIND_TIMEOUT))
    if not enabled:
        return replace(NO_PREDICATES, bind_timeout=timeout)
    proportions = tuple(
        Proportion(name, _rate(arguments, rates[name, "cpu"]), _rate(arguments, rates[name, "memory"]))
        for name in names
    )
    for name in names:
        if name.startswith(_OF_SHARED_CARDS):
            arguments[PROPORTIONAL_RESOURCES].warn(f"{name} is not evaluated: it is a resource of shared cards")
    proportional = _is_given(arguments, PROPORTIONAL) and arguments[PROPORTIONAL].boolean()
    given = {
        field: arguments[name].boolean() for name, field in PREDICATE_ARGUMENTS.items() if _is_given(arguments, name)
    }
    counting = tuple(each for each in proportions if not each.resource.startswith(_OF_SHARED_CARDS))
    return Predicates(**given, proportions=counting if proportional else (), bind_timeout=timeout)


def read_nodeorder(arguments: Arguments) -> NodeOrder:
    """Return the weights of nodeorder."""
    _check_names(arguments, tuple(NODEORDER_ARGUMENTS))
    given = {
        field: _weight(arguments, name) for name, field in NODEORDER_ARGUMENTS.items() if _is_given(arguments, name)
    }
    return NodeOrder(**given)


def read_binpack(arguments: Arguments) -> Binpack:
    """Return the weights of binpack. As in Volcano, a resource with a weight below 0 has the weight 1."""
    names = _listed(arguments, BINPACK_RESOURCES)
    of_resources = {"cpu": BINPACK_CPU, "memory": BINPACK_MEMORY}
    of_resources |= {name: f"{BINPACK_RESOURCES}.{name}" for name in sorted(names) if name not in of_resources}
    known = (BINPACK_WEIGHT, BINPACK_RESOURCES, *of_resources.values())
    _check_names(_without_unlisted(arguments, BINPACK_RESOURCES, known), known)
    weights = {name: _weight(arguments, argument) for name, argument in of_resources.items()}
    return Binpack(
        weight=_weight(arguments, BINPACK_WEIGHT),
        resources=tuple((name, weight if weight >= 0 else 1) for name, weight in weights.items()),
    )


def _listed(arguments: Arguments, name: str) -> list[str]:
    """Return the names of resources in an argument, each once."""
    field = arguments.get(name)
    if field is not None and not isinstance(field.value, str | None):
        raise field.error("names of resources separated by commas, such as nvidia.com/gpu")
    text = (field.value if field else None) or ""
    return list(dict.fromkeys(each.strip() for each in text.split(",") if each.strip()))


def _without_unlisted(arguments: Arguments, resources: str, known: Iterable[str]) -> Arguments:
    """Return the arguments without those of resources that the argument ``resources`` does not name, with warnings."""
    of_known = set(known)
    unlisted = [name for name in arguments if name.startswith(f"{resources}.") and name not in of_known]
    for name in unlisted:
        arguments[name].warn(f"is ignored: {resources} does not name this resource")
    return {name: field for name, field in arguments.items() if name not in unlisted}


def _rate(arguments: Arguments, name: str) -> float:
    """Return a rate; as in Volcano, 1 if it is absent or negative."""
    if not _is_given(arguments, name):
        return 1.0
    try:
        rate = float(as_text(arguments[name].value))
    except ValueError:
        rate = inf
    if not rate <= _LARGEST_RATE:
        raise arguments[name].error(f"a number from 0 to {_LARGEST_RATE:g}")
    return rate if rate >= 0 else 1.0


def _is_given(arguments: Arguments, name: str) -> bool:
    return name in arguments and not arguments[name].blank()


def _weight(arguments: Arguments, name: str) -> int:
    return arguments[name].number(-LARGEST_WEIGHT, LARGEST_WEIGHT) if _is_given(arguments, name) else 1


def _check_names(arguments: Arguments, known: tuple[str, ...]) -> None:
    for name, field in arguments.items():
        holder = ConfField(field.source, None, field.path.removesuffix(f"[{name}]"))
        holder.is_known(name, known, "argument")
