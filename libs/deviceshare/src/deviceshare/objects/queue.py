"""Queues, ``scheduling.volcano.sh/v1beta1``."""

import msgspec

from deviceshare.errors import Problem
from deviceshare.facts import QueueFact
from deviceshare.objects.lenient import decode_view
from deviceshare.objects.views import QueueObject

_DECODER = msgspec.json.Decoder(QueueObject)
_OPEN = ("", "Open")


def decode_queue(raw: bytes) -> QueueFact:
    """Return the fact of a Queue given as JSON; what cannot be read is in ``problems`` and has its default.

    A queue that no controller has given a state yet is open.

    Raises:
        FormatError: where it has no name.
    """
    view, problems = decode_view(raw, _DECODER, "Queue")
    name = view.metadata.name or ""
    weight = 1 if view.spec is None or view.spec.weight is None else view.spec.weight
    if weight < 1:
        problems.append(Problem(f"Queue {name}", "spec.weight", str(weight), "a whole number from 1"))
        weight = 1
    return QueueFact(
        revision=view.metadata.resource_version or "",
        name=name,
        weight=weight,
        open=view.status is None or (view.status.state or "") in _OPEN,
        problems=tuple(problems),
    )
