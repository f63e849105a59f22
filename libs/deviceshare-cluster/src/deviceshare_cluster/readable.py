"""Objects as this package reads and changes them: known fields have their types, whatever is stored.

An API server admits no object with a field of a wrong type, but a local cluster stores what is written to it, and a
definition may be missing or lax. The lenient view is that of facts (:mod:`deviceshare.objects.lenient`).
"""

import msgspec
from deviceshare.model import FormatError, Problem
from deviceshare.objects import repair
from deviceshare.objects.views import Metadata, View
from deviceshare.objects.views import Object as ObjectView

from deviceshare_cluster.interface import ClusterError, Object


class _Named(View):
    """A reference to an object, or an item of a list."""

    kind: str | None = None
    namespace: str | None = None
    name: str | None = None
    uid: str | None = None


class _Metadata(Metadata):
    """``metadata`` with owners."""

    owner_references: list[_Named] | None = None


class _Spec(View):
    """The fields of ``spec`` that bindings, volumes and controllers depend on."""

    node_name: str | None = None
    scheduling_gates: list[_Named] | None = None
    claim_ref: _Named | None = None
    volume_name: str | None = None
    storage_class_name: str | None = None


class _Condition(View):
    """``status.conditions[]``."""

    type: str | None = None
    status: str | None = None
    reason: str | None = None
    message: str | None = None
    last_transition_time: str | None = None


class _Status(View):
    """``status``."""

    phase: str | None = None
    start_time: str | None = None
    conditions: list[_Condition] | None = None


class _ReadObject(ObjectView):
    """Any object."""

    metadata: _Metadata
    spec: _Spec | None = None
    status: _Status | None = None


_SPEC_FIELDS = frozenset(_Spec.__struct_encode_fields__)
_WITH_SPEC = ("Pod", "PersistentVolume", "PersistentVolumeClaim")
"""Kinds of objects that have a ``spec``, whether or not it is stored."""
MALFORMED = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


def readable(kind: str, raw: bytes | msgspec.Raw) -> Object:
    """Return an object of this kind without fields of a wrong type among those that this package reads.

    Raises:
        ClusterError: final: it is no JSON object with metadata, or has too many wrong fields.
    """
    try:
        tree: Object = msgspec.json.decode(raw)
    except MALFORMED as error:
        raise ClusterError(f"an object of the kind {kind} cannot be read: {error}", final=True) from error
    problems: list[Problem] = []
    try:
        repair(tree, _ReadObject, kind, problems, memoryview(raw).nbytes)
        if problems and problems[-1].field == "$":
            raise FormatError(*msgspec.structs.astuple(problems[-1]))
    except FormatError as error:
        raise ClusterError(f"an object cannot be read: {error}", final=True) from error
    found = {name: value for name, value in tree.items() if value is not None}
    if kind in _WITH_SPEC:
        found.setdefault("spec", {})
    for name in ("uid", "resourceVersion"):
        found["metadata"][name] = found["metadata"].get(name) or ""
    return found


def reduced(obj: Object) -> Object:
    """Return a readable object without the most of its spec, which may be large: for as long as a request takes."""
    metadata = {name: value for name, value in obj["metadata"].items() if name != "managedFields"}
    found = {name: value for name, value in obj.items() if name != "spec"} | {"metadata": metadata}
    if "spec" in obj:
        found["spec"] = {name: value for name, value in (obj["spec"] or {}).items() if name in _SPEC_FIELDS}
    return found
