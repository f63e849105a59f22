"""Namespaces, ``v1``."""

import msgspec

from deviceshare.model import NamespaceFact, limited
from deviceshare.objects.lenient import decode_view
from deviceshare.objects.metadata import bounded_labels
from deviceshare.objects.problems import Problems
from deviceshare.objects.views import NamespaceObject

_DECODER = msgspec.json.Decoder(NamespaceObject)


def decode_namespace(raw: bytes) -> NamespaceFact:
    """Decode a Namespace in JSON; labels that are not text are omitted, and a problem.

    Raises:
        FormatError: the object has no name.
    """
    view, problems = decode_view(raw, _DECODER, "Namespace")
    labels = bounded_labels(view.metadata.labels, Problems(f"Namespace {view.metadata.name}", problems))
    return NamespaceFact(
        revision=view.metadata.resource_version or "",
        name=view.metadata.name or "",
        labels=tuple(sorted(labels.items())),
        problems=limited(problems),
    )
