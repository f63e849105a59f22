"""The objects that controllers make: owned by the one that they are for, with which garbage collection deletes them."""

from collections.abc import Mapping
from typing import Any

import msgspec
from deviceshare_cluster.interface import Object

from deviceshare_localcluster.kinds import KINDS


def copied(value: Any) -> Any:
    """Return a deep copy of a JSON value."""
    return msgspec.json.decode(msgspec.json.encode(value))


def owned_by(owner: Object) -> dict[str, Any]:
    """Return the metadata of objects that ``owner`` controls: namespace and owner."""
    metadata = owner["metadata"]
    reference = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": metadata["name"]}
    reference |= {"uid": metadata["uid"], "controller": True, "blockOwnerDeletion": True}
    return {"namespace": metadata["namespace"], "ownerReferences": [reference]}


def child(owner: Object, kind: str, name: str, spec: Mapping[str, Any], **metadata: Any) -> Object:
    """Return an object of a kind (a name in :data:`~deviceshare_localcluster.kinds.KINDS`) that ``owner`` controls.

    ``metadata``: further fields, such as ``labels``; empty ones are omitted.
    """
    of_kind = KINDS[kind]
    found = {"name": name, **owned_by(owner)} | {field: value for field, value in metadata.items() if value}
    return {"apiVersion": of_kind.api_version, "kind": of_kind.kind, "metadata": found, "spec": dict(spec)}
