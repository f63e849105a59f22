"""PriorityClasses, ``scheduling.k8s.io/v1``."""

import msgspec

from deviceshare.model import PriorityClassFact, limited
from deviceshare.objects.lenient import decode_view
from deviceshare.objects.views import PriorityClassObject

_DECODER = msgspec.json.Decoder(PriorityClassObject)


def decode_priority_class(raw: bytes) -> PriorityClassFact:
    """Decode a PriorityClass in JSON; an invalid value is 0 and a problem.

    Raises:
        FormatError: the object has no name.
    """
    view, problems = decode_view(raw, _DECODER, "PriorityClass")
    return PriorityClassFact(
        revision=view.metadata.resource_version or "",
        name=view.metadata.name or "",
        value=view.value or 0,
        default=bool(view.global_default),
        problems=limited(problems),
    )
