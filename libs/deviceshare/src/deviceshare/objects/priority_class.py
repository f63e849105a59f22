"""PriorityClasses, ``scheduling.k8s.io/v1``."""

import msgspec

from deviceshare.model import PriorityClassFact
from deviceshare.objects.lenient import decode_view
from deviceshare.objects.views import PriorityClassObject

_DECODER = msgspec.json.Decoder(PriorityClassObject)


def decode_priority_class(raw: bytes) -> PriorityClassFact:
    """Return the fact of a PriorityClass given as JSON; a malformed value is in ``problems`` and 0.

    Raises:
        FormatError: it has no name.
    """
    view, problems = decode_view(raw, _DECODER, "PriorityClass")
    return PriorityClassFact(
        revision=view.metadata.resource_version or "",
        name=view.metadata.name or "",
        value=view.value or 0,
        default=bool(view.global_default),
        problems=tuple(problems),
    )
