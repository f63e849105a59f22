"""Requests of pods with the same template, decoded once.

Pods of one template have the same bytes in the fields that make up a request, though names, nodes and states differ.
The request is a function of these bytes alone, so it is decoded for the first of them and shared.
"""

from collections.abc import Mapping
from functools import lru_cache
from operator import attrgetter
from typing import NamedTuple

import msgspec

from deviceshare.formats.vgpu import PODGROUP_POLICY
from deviceshare.model import PodRequest, Problem
from deviceshare.objects.pod_request import annotations_read, labels_read, pod_request, requests_devices
from deviceshare.objects.problems import Problems
from deviceshare.objects.views import PodSpec, TemplateSpec

MOST_TEMPLATES = 2048
"""Requests that are kept, the latest used: some megabytes."""


class Template(NamedTuple):
    """A request, and whether it requests devices."""

    request: PodRequest
    devices: bool


_SPEC = msgspec.json.Decoder(PodSpec)
_FIELDS = tuple(
    (name, f'"{encoded}":'.encode())
    for name, encoded in zip(TemplateSpec.__struct_fields__, TemplateSpec.__struct_encode_fields__, strict=True)
    if TemplateSpec.__annotations__[name] is msgspec.Raw
)
_PARTS = attrgetter(*(name for name, _ in _FIELDS))


def shared_request(spec: TemplateSpec, annotations: Mapping[str, str], labels: Mapping[str, str]) -> Template | None:
    """Return the request of a pod (:func:`.pod_request.pod_request`).

    None: it has problems, which name the pod, or depends on the name of its PodGroup.
    """
    if PODGROUP_POLICY in annotations:
        return None
    return _request(tuple(map(bytes, _PARTS(spec))), annotations_read(annotations), labels_read(labels))


@lru_cache(maxsize=MOST_TEMPLATES)
def _request(
    parts: tuple[bytes, ...], annotations: tuple[tuple[str, str], ...], labels: tuple[tuple[str, str], ...]
) -> Template | None:
    fields = b",".join(key + part for (_, key), part in zip(_FIELDS, parts, strict=True))
    try:
        spec = _SPEC.decode(b"{%b}" % fields)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    found: list[Problem] = []
    problems = Problems("", found)
    request = pod_request(spec, dict(annotations), dict(labels), "", problems)
    return None if found else Template(request, requests_devices(request))
