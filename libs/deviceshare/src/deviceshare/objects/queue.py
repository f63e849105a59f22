"""Queues, ``scheduling.volcano.sh/v1beta1``."""

from math import inf

import msgspec

from deviceshare.model import Problem, QueueFact
from deviceshare.objects.amounts import read_amounts
from deviceshare.objects.lenient import decode_view, seconds
from deviceshare.objects.views import Guarantee, QueueObject, QueueSpec

HIERARCHY, WEIGHTS = "volcano.sh/hierarchy", "volcano.sh/hierarchy-weights"
"""Annotations: the path of a queue from the root, such as ``root/eng/dev``, and a weight for each part of it."""
DEEPEST = 32
"""The most parts of a path."""

_DECODER = msgspec.json.Decoder(QueueObject)
_OPEN = "Open"


def decode_queue(raw: bytes) -> QueueFact:
    """Return the fact of a Queue given as JSON; malformed fields are in ``problems`` and have their default.

    A queue is not open until a controller has set its state, as in Volcano.

    Raises:
        FormatError: it has no name.
    """
    view, problems = decode_view(raw, _DECODER, "Queue")
    name, spec = view.metadata.name or "", view.spec or QueueSpec()
    subject = f"Queue {name}"
    weight = 1 if spec.weight is None else spec.weight
    if weight < 0:
        problems.append(Problem(subject, "spec.weight", str(weight), "a whole number, 0 or more"))
        weight = 1
    state = "" if view.status is None else view.status.state or ""
    guarantee = (spec.guarantee or Guarantee()).resource
    return QueueFact(
        revision=view.metadata.resource_version or "",
        name=name,
        parent=spec.parent or "",
        hierarchy=_hierarchy(view.metadata.annotations or {}, subject, problems),
        weight=weight,
        priority=spec.priority or 0,
        capability=read_amounts(spec.capability, subject, "spec.capability", problems),
        deserved=read_amounts(spec.deserved, subject, "spec.deserved", problems),
        guarantee=read_amounts(guarantee, subject, "spec.guarantee.resource", problems),
        reclaimable=spec.reclaimable is not False,
        created=seconds(view.metadata.creation_timestamp, subject, "metadata.creationTimestamp", problems),
        open=state == _OPEN,
        state=state,
        problems=tuple(problems),
    )


def _hierarchy(annotations: dict[str, str], subject: str, problems: list[Problem]) -> tuple[tuple[str, float], ...]:
    """Return the path below the root with its weights. A missing or invalid weight is 1.

    Source: Volcano pkg/scheduler/plugins/drf (buildHierarchy), which ends the path at a missing weight.
    """
    path, weights = annotations.get(HIERARCHY, "").split("/"), annotations.get(WEIGHTS, "").split("/")
    if len(path) > DEEPEST:
        expected = f"a path of at most {DEEPEST} parts"
        problems.append(Problem(subject, f"metadata.annotations[{HIERARCHY}]", "/".join(path), expected))
        return ()
    found = [_weight(text) for text in weights[: len(path)]]
    if path != [""] and (len(weights) != len(path) or None in found):
        expected = f"{len(path)} numbers from 1, one for each part of {'/'.join(path)!r}, separated by '/'"
        problems.append(Problem(subject, f"metadata.annotations[{WEIGHTS}]", annotations.get(WEIGHTS, ""), expected))
    found += [None] * (len(path) - len(found))
    return tuple((part, weight or 1.0) for part, weight in zip(path[1:], found[1:], strict=True))


def _weight(text: str) -> float | None:
    try:
        weight = float(text)
    except ValueError:
        return None
    return weight if 1 <= weight < inf else None
