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
from deviceshare.objects.views import Int32, Object, PodSpec, SchedulingGate, Status, View

MOST_TEMPLATES = 2048
"""Requests that are kept, the latest used: some megabytes."""
_ABSENT = msgspec.Raw(b"null")


class TemplateSpec(View):
    """``spec`` of a Pod: the fields of a request as bytes. The others are those of :class:`.views.PodSpec`."""

    node_name: str | None = None
    scheduler_name: str | None = None
    priority: Int32 | None = None
    scheduling_gates: list[SchedulingGate] | None = None
    containers: msgspec.Raw = _ABSENT
    init_containers: msgspec.Raw = _ABSENT
    resources: msgspec.Raw = _ABSENT
    overhead: msgspec.Raw = _ABSENT
    node_selector: msgspec.Raw = _ABSENT
    affinity: msgspec.Raw = _ABSENT
    tolerations: msgspec.Raw = _ABSENT
    topology_spread_constraints: msgspec.Raw = _ABSENT
    volumes: msgspec.Raw = _ABSENT
    resource_claims: msgspec.Raw = _ABSENT
    host_network: msgspec.Raw = _ABSENT


class TemplateObject(Object):
    """A Pod whose request is not decoded."""

    spec: TemplateSpec
    status: Status | None = None


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
    except msgspec.MsgspecError:
        return None
    found: list[Problem] = []
    problems = Problems("", found)
    request = pod_request(spec, dict(annotations), dict(labels), "", problems)
    return None if found else Template(request, requests_devices(request))
