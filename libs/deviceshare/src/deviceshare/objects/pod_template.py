"""Requests of pods with the same template, decoded once.

Pods of one template have the same bytes in the fields that make up a request, though names, nodes and states differ.
The request is a function of these bytes alone, so it is decoded for the first of them and shared.
"""

from collections.abc import Mapping
from functools import lru_cache
from operator import attrgetter

import msgspec

from deviceshare.families import pod_keys
from deviceshare.model import Labels, PodRequest, Problem
from deviceshare.objects.pod_request import annotations_needed, labels_read, pod_request
from deviceshare.objects.pod_views import PodSpec, TemplateSpec
from deviceshare.objects.problems import Problems

MAX_TEMPLATES = 2048
"""Requests that are kept, the latest used: some megabytes."""


_INTER_POD = b'"pod'
"""In the bytes of ``spec.affinity`` if it has ``podAffinity`` or ``podAntiAffinity``."""
_NONE = (b"null", b"[]")
_SPEC = msgspec.json.Decoder(PodSpec)
_FIELDS = tuple(
    (name, f'"{encoded}":'.encode())
    for name, encoded in zip(TemplateSpec.__struct_fields__, TemplateSpec.__struct_encode_fields__, strict=True)
    if TemplateSpec.__annotations__[name] is msgspec.Raw
)
_PARTS = attrgetter(*(name for name, _ in _FIELDS))


def shared_request(
    spec: TemplateSpec, namespace: str, annotations: Mapping[str, str], labels: Mapping[str, str]
) -> PodRequest | None:
    """Return the request of a pod (:func:`.pod_request.pod_request`).

    None: it has problems, which name the pod, or depends on the name of its PodGroup.
    """
    if not pod_keys().spreading.isdisjoint(annotations):
        return None
    if _INTER_POD in bytes(spec.affinity) or bytes(spec.topology_spread_constraints) not in _NONE:
        # Its inter-pod constraints depend on its namespace and on all labels.
        scope, read = namespace, tuple(sorted(labels.items()))
    else:
        scope, read = "", labels_read(labels)
    return _request(tuple(map(bytes, _PARTS(spec))), annotations_needed(annotations), read, scope)


@lru_cache(maxsize=MAX_TEMPLATES)
def _request(
    parts: tuple[bytes, ...], annotations: tuple[tuple[str, str], ...], labels: Labels, namespace: str
) -> PodRequest | None:
    fields = b",".join(key + part for (_, key), part in zip(_FIELDS, parts, strict=True))
    try:
        spec = _SPEC.decode(b"{%b}" % fields)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    found: list[Problem] = []
    problems = Problems("", found)
    request = pod_request(spec, dict(annotations), dict(labels), (namespace, ""), problems)
    return None if found else request
