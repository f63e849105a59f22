"""Queues, ``scheduling.volcano.sh/v1beta1``."""

import msgspec

from deviceshare.errors import Problem
from deviceshare.facts import QueueFact
from deviceshare.objects.amounts import read_amounts
from deviceshare.objects.lenient import decode_view, seconds
from deviceshare.objects.views import Guarantee, QueueObject, QueueSpec

_DECODER = msgspec.json.Decoder(QueueObject)
_OPEN = ("", "Open")


def decode_queue(raw: bytes) -> QueueFact:
    """Return the fact of a Queue given as JSON; what cannot be read is in ``problems`` and has its default.

    A queue that no controller has given a state yet is open.

    Raises:
        FormatError: where it has no name.
    """
    view, problems = decode_view(raw, _DECODER, "Queue")
    name, spec = view.metadata.name or "", view.spec or QueueSpec()
    subject = f"Queue {name}"
    weight = 1 if spec.weight is None else spec.weight
    if weight < 1:
        problems.append(Problem(subject, "spec.weight", str(weight), "a whole number from 1"))
        weight = 1
    state = "" if view.status is None else view.status.state or ""
    guarantee = (spec.guarantee or Guarantee()).resource
    return QueueFact(
        revision=view.metadata.resource_version or "",
        name=name,
        weight=weight,
        priority=spec.priority or 0,
        capability=read_amounts(spec.capability, subject, "spec.capability", problems),
        deserved=read_amounts(spec.deserved, subject, "spec.deserved", problems),
        guarantee=read_amounts(guarantee, subject, "spec.guarantee.resource", problems),
        reclaimable=spec.reclaimable is not False,
        created=seconds(view.metadata.creation_timestamp, subject, "metadata.creationTimestamp", problems),
        open=state in _OPEN,
        state=state,
        problems=tuple(problems),
    )
