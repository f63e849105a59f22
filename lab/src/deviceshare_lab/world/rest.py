"""The REST interface of the simulated API server: methods and paths, merge patches, optimistic concurrency."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
from deviceshare_cluster.changes import merged
from deviceshare_cluster.interface import Change, Object
from deviceshare_cluster.kube.client import ApiRefusal
from deviceshare_cluster.kube.kinds import KINDS

from deviceshare_lab.world.apiserver import ApiServer, Key, NotAllowed

_PLURALS = {kind.plural: name for name, kind in KINDS.items()}
_encode = msgspec.json.encode


class Target(NamedTuple):
    """What a path names; ``name`` is '' for a collection."""

    kind: str
    namespace: str
    name: str
    subresource: str

    @property
    def key(self) -> Key:
        """The key of the object."""
        return self.kind, self.namespace, self.name

    def covers(self, change: Change) -> bool:
        """Return whether a watch of this collection delivers a change."""
        return change.kind == self.kind and self.namespace in ("", change.namespace)


def parse(path: str) -> Target:
    """Return what a path names."""
    parts = path.strip("/").split("/")
    rest = parts[2:] if parts[0] == "api" else parts[3:]
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2:  # else it names namespaces themselves
        namespace, rest = rest[1], rest[2:]
    name = rest[1] if len(rest) > 1 else ""
    return Target(_PLURALS[rest[0]], namespace, name, rest[2] if len(rest) > 2 else "")


def serve(server: ApiServer, method: str, path: str, body: Any, by: str) -> bytes:
    """Execute a request and return the answer's body. Raises ApiRefusal."""
    target = parse(path)
    try:
        match method:
            case "GET" if not target.name:
                return _list(server, target)
            case "GET":
                return _encode(_existing(server, target))
            case "POST" if target.subresource == "binding":
                metadata = body["metadata"]
                version = str(metadata.get("resourceVersion") or "")
                node, annotations = body["target"]["name"], metadata.get("annotations") or {}
                server.bind(target.key, str(metadata.get("uid") or ""), node, annotations, version, by)
                return b'{"kind":"Status","status":"Success"}'
            case "POST" if target.subresource == "eviction":
                options = body.get("deleteOptions") or {}
                uid = str((options.get("preconditions") or {}).get("uid") or "")
                server.evict(target.key, uid, dry_run="All" in (options.get("dryRun") or ()), by=by)
                return b'{"kind":"Status","status":"Success"}'
            case "POST":
                return _encode(server.create({"kind": target.kind, **body}, by))
            case "PATCH":
                return _encode(_patch(server, target, body, by))
            case "PUT":
                return _encode(_replace(server, target, body, by))
    except NotAllowed as refused:
        raise ApiRefusal(refused.status, refused.reason, str(refused)) from refused
    raise ApiRefusal(405, "MethodNotAllowed", f"{method} {path}")


def _list(server: ApiServer, target: Target) -> bytes:
    items = [change.raw for change in server.listed(target.kind) if target.covers(change)]
    return b'{"metadata":{"resourceVersion":"%d"},"items":[%s]}' % (server.revision, b",".join(items))


def _existing(server: ApiServer, target: Target) -> Object:
    found = server.peek(*target.key)
    if found is None:
        raise NotAllowed(404, f"{target.kind} {target.namespace}/{target.name} not found")
    return found


def _check(found: Object, metadata: Mapping[str, Any]) -> None:
    """Compare the preconditions of a write with the object. Raises NotAllowed."""
    for field in ("uid", "resourceVersion"):
        expected = metadata.get(field)
        if expected and expected != found["metadata"][field]:
            raise NotAllowed(409, f"the object has been modified: {field} {found['metadata'][field]}")


def _patch(server: ApiServer, target: Target, patch: Object, by: str) -> Object:
    found = _existing(server, target)
    _check(found, patch.get("metadata") or {})

    def change(obj: Object) -> bool:
        after = merged(obj, _with_conditions(obj, patch))
        if after == obj:
            return False
        obj.clear()
        obj.update(after)
        return True

    return server.update(target.key, change, by) or found


def _with_conditions(obj: Object, patch: Object) -> Object:
    """Return a patch whose conditions of a pod are complete: a strategic merge patch merges them by type."""
    status = patch.get("status")
    if obj["kind"] != "Pod" or not status or "conditions" not in status:
        return patch
    types = {each["type"] for each in status["conditions"]}
    others = [each for each in (obj.get("status") or {}).get("conditions") or [] if each["type"] not in types]
    return {**patch, "status": {**status, "conditions": [*others, *status["conditions"]]}}


def _replace(server: ApiServer, target: Target, body: Object, by: str) -> Object:
    found = _existing(server, target)
    _check(found, body["metadata"])

    def change(obj: Object) -> bool:
        obj.update(body)
        return True

    return server.update(target.key, change, by) or found
