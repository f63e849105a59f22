"""The parts of objects that the controllers decode of every object: owners for garbage collection, phases of pods."""

from typing import Any

import msgspec


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


class _Labels(msgspec.Struct):
    labels: dict[str, str] = {}


class _Labelled(msgspec.Struct):
    metadata: _Labels


decode_head = msgspec.json.Decoder(Head).decode
decode_pod_head = msgspec.json.Decoder(PodHead).decode
_decode_labelled = msgspec.json.Decoder(_Labelled).decode


def decode_labels(raw: bytes) -> dict[str, str]:
    """Return the labels of an object."""
    return _decode_labelled(raw).metadata.labels
