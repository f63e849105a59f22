"""The parts of objects that the controllers decode of every object: owners for garbage collection, phases of pods."""

from typing import Any

import msgspec
from deviceshare_cluster.readable import MALFORMED


class Owner(msgspec.Struct):
    """``metadata.ownerReferences[]``."""

    kind: str
    name: str
    uid: str
    api_version: str = msgspec.field(default="", name="apiVersion")
    controller: bool = False


class Metadata(msgspec.Struct):
    """``metadata``."""

    name: str
    uid: str
    namespace: str = ""
    owners: list[Owner] = msgspec.field(default_factory=list, name="ownerReferences")
    created: Any = msgspec.field(default=None, name="creationTimestamp")
    """A text; manifests may have null."""


class _Status(msgspec.Struct):
    phase: str = ""


class Head(msgspec.Struct):
    """The metadata of an object that garbage collection needs."""

    metadata: Metadata


class PodHead(Head):
    """The metadata of a pod, and its phase."""

    status: _Status | None = None


class _PriorityClass(msgspec.Struct):
    value: int = 0


decode_head = msgspec.json.Decoder(Head).decode
decode_pod_head = msgspec.json.Decoder(PodHead).decode
_decode_class = msgspec.json.Decoder(_PriorityClass).decode


def class_value(raw: bytes) -> int:
    """Return the value of a PriorityClass, 0 if it has none."""
    try:
        return _decode_class(raw).value
    except MALFORMED:
        return 0
