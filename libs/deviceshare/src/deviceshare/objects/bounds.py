"""What a fact keeps of one object at most: a tenant chooses the sizes of its objects, up to the 1.5 MiB of etcd.

Facts of all objects are in the memory of all services, decoded they are several times as large as their JSON, and some
of their parts cost time for every node. A field that exceeds its bound is cut and is a problem, so that the pod waits
with a reason and nothing else stops. Kubernetes limits annotations together to 256 KiB, names to 253 and values of
labels to 63 characters, and nothing else: the bounds are far above what manifests of users and operators have.
"""

from collections.abc import Mapping
from typing import Any

from deviceshare.objects.pod_views import Affinity, PodSpec
from deviceshare.objects.problems import Problems
from deviceshare.objects.views import View

SMALL_BYTES = 1 << 14
"""JSON of this size has no long texts: its texts are not compared with :data:`MAX_CHARACTERS`."""
MAX_CHARACTERS = 1024
"""Characters of a text that is no annotation, such as a name, an address or a value of an expression."""
MAX_CONTAINERS = 256
"""Containers of a pod, and init containers; the amounts of further ones are added up."""
MAX_RESOURCES = 64
"""Resources that the containers of a pod, or ``minResources`` of a PodGroup, name."""
MAX_HOST_PORTS = 256
"""Host ports of a pod."""
MAX_SELECTED = 128
"""Labels of ``nodeSelector``."""
MAX_TOLERATIONS = 128
MAX_GATES = 64
"""Scheduling gates of a pod."""
MAX_VOLUMES = 256
MAX_NODE_TERMS = 128
"""Terms of required, and of preferred, node affinity."""
MAX_POD_TERMS = 32
"""Terms of a pod's affinity and anti-affinity to pods, all together: each is counted on every node."""
MAX_SPREADS = 16
"""Topology spread constraints of a pod."""
MAX_TEXTS = 4096
"""Keys, operators, values and names in ``affinity``, ``topologySpreadConstraints`` or ``volumes``, or in a selector."""
MAX_TASKS = 1024
"""Entries of ``minTaskMember``, and of ``subGroupPolicy``, of a PodGroup."""
MAX_MODES = 16
"""Access modes of a PersistentVolumeClaim or PersistentVolume."""

_AFFINITY = "spec.affinity"
_LISTS = (
    ("node_selector", "spec.nodeSelector", MAX_SELECTED),
    ("tolerations", "spec.tolerations", MAX_TOLERATIONS),
    ("topology_spread_constraints", "spec.topologySpreadConstraints", MAX_SPREADS),
    ("volumes", "spec.volumes", MAX_VOLUMES),
)
"""Fields of :class:`PodSpec` that are part of the request of a pod, with their bounds."""


def bound_spec(spec: PodSpec, problems: Problems) -> None:
    """Cut the fields of a pod's spec that exceed their bounds, apart from those of its containers."""
    for name, field, most in _LISTS:
        if given := getattr(spec, name):
            setattr(spec, name, cut(given, most, field, problems))
    if spec.affinity is not None:
        spec.affinity = _bound_affinity(spec.affinity, problems)
    if spec.topology_spread_constraints and has_many_texts(
        spec.topology_spread_constraints, "spec.topologySpreadConstraints", problems
    ):
        spec.topology_spread_constraints = None
    if spec.volumes and has_many_texts(spec.volumes, "spec.volumes", problems):
        spec.volumes = None


def _bound_affinity(affinity: Affinity, problems: Problems) -> Affinity | None:
    node = affinity.node_affinity
    if node is not None:
        if (required := node.required_during_scheduling_ignored_during_execution) is not None:
            field = f"{_AFFINITY}.nodeAffinity.required.nodeSelectorTerms"
            required.node_selector_terms = cut(required.node_selector_terms or [], MAX_NODE_TERMS, field, problems)
        preferred = node.preferred_during_scheduling_ignored_during_execution or []
        preferred = cut(preferred, MAX_NODE_TERMS, f"{_AFFINITY}.nodeAffinity.preferred", problems)
        node.preferred_during_scheduling_ignored_during_execution = preferred
    of_pods = [each for each in (affinity.pod_affinity, affinity.pod_anti_affinity) if each is not None]
    terms = sum(
        len(each.required_during_scheduling_ignored_during_execution or ())
        + len(each.preferred_during_scheduling_ignored_during_execution or ())
        for each in of_pods
    )
    if terms > MAX_POD_TERMS:
        field = f"{_AFFINITY}.podAffinity and podAntiAffinity"
        problems.add(field, f"{terms} terms", f"at most {MAX_POD_TERMS} terms")
        affinity.pod_affinity = affinity.pod_anti_affinity = None
    return None if has_many_texts(affinity, _AFFINITY, problems) else affinity


def has_many_texts(view: Any, field: str, problems: Problems) -> bool:
    """Return whether a part of an object has more than :data:`MAX_TEXTS` texts, which is a problem."""
    texts = _texts(view)
    if texts > MAX_TEXTS:
        problems.add(field, f"{texts} keys, values and names", f"at most {MAX_TEXTS}")
    return texts > MAX_TEXTS


def _texts(view: Any) -> int:
    if isinstance(view, str):
        return 1
    if isinstance(view, View):
        return sum(_texts(getattr(view, name)) for name in view.__struct_fields__)
    if isinstance(view, dict):
        return 2 * len(view)
    return sum(map(_texts, view)) if isinstance(view, list) else 0


def cut(given: Any, most: int, field: str, problems: Problems) -> Any:
    """Return a list or mapping, or its first ``most`` entries and a problem; the first ones of a mapping by name."""
    if len(given) <= most:
        return given
    problems.add(field, f"{len(given)} entries", f"at most {most} entries")
    return given[:most] if isinstance(given, list) else dict(sorted(given.items())[:most])


def cut_texts(view: Any, problems: Problems, path: str = "") -> None:
    """Remove the texts of a view that are longer than :data:`MAX_CHARACTERS`, except values of annotations."""
    names = zip(view.__struct_fields__, view.__struct_encode_fields__, strict=True)
    for name, encoded in names:
        value, field = getattr(view, name), f"{path}.{encoded}" if path else encoded
        if isinstance(value, str) and len(value) > MAX_CHARACTERS:
            _report_long(field, value, problems)
            setattr(view, name, None)
        elif isinstance(value, View):
            cut_texts(value, problems, field)
        elif isinstance(value, dict):
            setattr(view, name, _short_entries(value, field, problems))
        elif isinstance(value, list):
            setattr(view, name, _short_items(value, field, problems))


def _short_items(items: list[Any], field: str, problems: Problems) -> list[Any]:
    kept = []
    for index, item in enumerate(items):
        if isinstance(item, View):
            cut_texts(item, problems, f"{field}[{index}]")
        elif isinstance(item, str) and len(item) > MAX_CHARACTERS:
            _report_long(f"{field}[{index}]", item, problems)
            continue
        kept.append(item)
    return kept


def _short_entries(entries: Mapping[str, Any], field: str, problems: Problems) -> dict[str, Any]:
    kept = {}
    for key, value in entries.items():
        long = max(key, value if isinstance(value, str) and field != "metadata.annotations" else "", key=len)
        if len(long) > MAX_CHARACTERS:
            _report_long(f"{field}[{key}]", long, problems)
        else:
            kept[key] = value
    return kept


def _report_long(field: str, value: str, problems: Problems) -> None:
    problems.add(field, value, f"at most {MAX_CHARACTERS} characters, not {len(value)}")
