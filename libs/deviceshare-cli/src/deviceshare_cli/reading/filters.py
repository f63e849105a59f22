"""Options of ``get`` that choose by what an object is: ``--status``, ``--queue``, ``--node``, ``--field-selector``."""

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any, Literal, NamedTuple

from deviceshare_metrics import api

from deviceshare_cli.errors import CommandError
from deviceshare_cli.reading.fields import MISSING, Path, parse_path, value_at
from deviceshare_cli.reading.kinds import CLAIMS, DEVICES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES, Resource
from deviceshare_cli.resource_claim_tables import claim_node

Status = Literal[
    "waiting", "refused", "fragmented", "pending", "nominated", "gated", "otherscheduler", "claimed", "bound",
    "terminating", "ended",
]  # fmt: skip
"""``waiting``: those of :data:`deviceshare_metrics.api.WAITING`; ``refused``: the waiting ones whose request is
invalid, so that no change of the cluster helps; ``fragmented``: those for which enough is free in sum; the others are
statuses of pods."""
_SERVED = {
    "metadata.name", "metadata.namespace", "spec.nodeName", "spec.schedulerName", "status.phase",
    "status.nominatedNodeName",
}  # fmt: skip
"""Fields that every object of some kind may lack. Others have to exist in an object at least."""
_NODE_OF: Mapping[Resource, Callable[[Any], str]] = {
    RESOURCE_CLAIMS: claim_node,
    RESOURCE_SLICES: lambda each: (each.get("spec") or {}).get("nodeName", ""),
}
"""The node of Kubernetes objects that have one: that of a ResourceClaim is the one of its devices."""


class Filters(NamedTuple):
    """The values of the options, '' or None where they are not given."""

    status: Status | None = None
    queue: str = ""
    node: str = ""
    fields: str = ""


def item_filter(filters: Filters, resource: Resource) -> Callable[[Any], bool]:
    """Return whether an item of the JSON API has the status, queue and node that are asked for.

    Raises CommandError for a kind that has none of them.
    """
    for option, value, kinds in (
        ("--status", filters.status, (PODS,)),
        ("--queue", filters.queue, (PODS,)),
        ("--node", filters.node, (PODS, DEVICES, CLAIMS, *_NODE_OF)),
    ):
        if value and resource not in kinds:
            raise CommandError(f"{option} selects {', '.join(each.plural for each in kinds)}, not {resource.plural}")
    node_of = _NODE_OF.get(resource, attrgetter("node"))
    return lambda item: (
        (filters.status is None or _has_status(item, filters.status))
        and (not filters.queue or item.queue == filters.queue)
        and (not filters.node or node_of(item) == filters.node)
    )


def _has_status(pod: api.Pod, status: Status) -> bool:
    waits = pod.state in api.WAITING and not pod.terminating
    if status == "waiting":
        return waits
    if status == "refused":
        return pod.refused
    if status == "fragmented":
        return bool(pod.fragmented)
    return status in (pod.status.lower(), pod.state.lower())


class FieldTerm(NamedTuple):
    """One requirement of a field selector, as a text and in parts."""

    name: str
    path: Path
    value: str
    negated: bool


def parse_field_selector(text: str) -> tuple[FieldTerm, ...]:
    """Return the requirements of ``a=b,c==d,e!=f``, as in apimachinery pkg/fields; raise CommandError."""
    terms = []
    for part in text.split(","):
        name, equal, value = part.partition("=")
        negated = name.endswith("!")
        if not equal or not name.strip("! "):
            raise CommandError(f"--field-selector {text!r} is not valid: expected FIELD=VALUE or FIELD!=VALUE")
        name = name.removesuffix("!").strip()
        terms.append(FieldTerm(name, parse_path(name, "--field-selector"), value.removeprefix("=").strip(), negated))
    return tuple(terms)


def matches(fields: Sequence[Any], term: FieldTerm) -> list[bool]:
    """Return which of these objects, as builtins, meet a requirement; a field that one lacks is ''.

    Raises CommandError if no object has the field, as the API server refuses an unknown one.
    """
    values = [value_at(each, term.path) for each in fields]
    if fields and term.name.lstrip(".") not in _SERVED and all(value is MISSING for value in values):
        raise CommandError(f"field label not supported: {term.name}: no object has this field")
    return [(_text(value) == term.value) != term.negated for value in values]


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None or value is MISSING or isinstance(value, Mapping | list | tuple) else str(value)
