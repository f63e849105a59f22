"""Queues, ``scheduling.volcano.sh/v1beta1``."""

from math import inf

import msgspec

from deviceshare.model import Labels, QueueFact, limited
from deviceshare.objects.amounts import counted_amounts
from deviceshare.objects.lenient import decode_view, seconds
from deviceshare.objects.policies import read_policies
from deviceshare.objects.problems import Problems
from deviceshare.objects.views import Guarantee, QueueObject, QueueSpec

HIERARCHY, WEIGHTS = "volcano.sh/hierarchy", "volcano.sh/hierarchy-weights"
"""Annotations: the path of a queue from the root, such as ``root/eng/dev``, and the weight of each part."""
NAMESPACES, NAMESPACE_SELECTOR = "deviceshare.io/namespaces", "deviceshare.io/namespace-selector"
"""Annotations: the namespaces that may use a queue, by name (``a, b``) and by labels (``team=a,stage=dev``). A
namespace that is named or has all the labels may use it; without both annotations every namespace may."""
DEEPEST = 32
"""Maximum number of parts of a path."""

_DECODER = msgspec.json.Decoder(QueueObject)
_OPEN = "Open"
_PAIR = 2


def decode_queue(raw: bytes) -> QueueFact:
    """Decode a Queue in JSON; invalid fields have their default and are in ``problems``.

    As in Volcano, a queue without a state is not open.

    Raises:
        FormatError: the object has no name.
    """
    view, found = decode_view(raw, _DECODER, "Queue")
    name, spec = view.metadata.name or "", view.spec or QueueSpec()
    problems = Problems(f"Queue {name}", found)
    weight = 1 if spec.weight is None else spec.weight
    if weight < 0:
        problems.add("spec.weight", str(weight), "a whole number, 0 or more")
        weight = 1
    state = "" if view.status is None else view.status.state or ""
    annotations = view.metadata.annotations or {}
    guarantee = (spec.guarantee or Guarantee()).resource
    return QueueFact(
        revision=view.metadata.resource_version or "",
        name=name,
        parent=spec.parent or "",
        hierarchy=_hierarchy(annotations, problems),
        weight=weight,
        priority=spec.priority or 0,
        capability=counted_amounts(spec.capability, "spec.capability", problems),
        deserved=counted_amounts(spec.deserved, "spec.deserved", problems),
        guarantee=counted_amounts(guarantee, "spec.guarantee.resource", problems),
        reclaimable=spec.reclaimable is not False,
        policies=read_policies(annotations, problems),
        created=seconds(view.metadata.creation_timestamp, "metadata.creationTimestamp", problems),
        open=state == _OPEN,
        state=state,
        namespaces=_namespaces(annotations),
        namespace_labels=_namespace_labels(annotations, problems),
        problems=limited(found),
    )


def _namespaces(annotations: dict[str, str]) -> tuple[str, ...] | None:
    """Return the named namespaces. None: all may use the queue, unless there are labels.

    A selector alone names no namespace, so that an invalid one allows none.
    """
    if NAMESPACES not in annotations:
        return () if NAMESPACE_SELECTOR in annotations else None
    return tuple(sorted({name.strip() for name in annotations[NAMESPACES].split(",")} - {""}))


def _namespace_labels(annotations: dict[str, str], problems: Problems) -> Labels | None:
    """Return the labels that select namespaces, None for no selection: a selector that is invalid selects nothing."""
    text = annotations.get(NAMESPACE_SELECTOR)
    if text is None:
        return None
    pairs = [tuple(part.strip() for part in each.split("=")) for each in text.split(",")]
    found = tuple(sorted((pair[0], pair[1]) for pair in pairs if len(pair) == _PAIR and pair[0]))
    if len(found) != len(pairs):
        problems.add(f"metadata.annotations[{NAMESPACE_SELECTOR}]", text, "labels such as team=a,stage=dev")
        return None
    return found


def _hierarchy(annotations: dict[str, str], problems: Problems) -> tuple[tuple[str, float], ...]:
    """Return the path below the root with weights. A missing or invalid weight is 1.

    Source: Volcano pkg/scheduler/plugins/drf (buildHierarchy), which has no default for missing weights.
    """
    path, weights = annotations.get(HIERARCHY, "").split("/"), annotations.get(WEIGHTS, "").split("/")
    if len(path) > DEEPEST:
        problems.add(f"metadata.annotations[{HIERARCHY}]", "/".join(path), f"a path of at most {DEEPEST} parts")
        return ()
    found = [_weight(text) for text in weights[: len(path)]]
    if path != [""] and (len(weights) != len(path) or None in found):
        expected = f"{len(path)} numbers from 1, one for each part of {'/'.join(path)!r}, separated by '/'"
        problems.add(f"metadata.annotations[{WEIGHTS}]", annotations.get(WEIGHTS, ""), expected)
    found += [None] * (len(path) - len(found))
    return tuple((part, weight or 1.0) for part, weight in zip(path[1:], found[1:], strict=True))


def _weight(text: str) -> float | None:
    try:
        weight = float(text)
    except ValueError:
        return None
    return weight if 1 <= weight < inf else None
