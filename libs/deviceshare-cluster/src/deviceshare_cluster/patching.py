"""Annotations, conditions and statuses as merge patches: the calls that are the same on every cluster."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import NamedTuple

from deviceshare_cluster.changes import annotated, changed_status, set_condition
from deviceshare_cluster.interface import Object, StatusValue


class Target(NamedTuple):
    """An object that is updated; ``what`` names the updated part in errors, ``status``: it is the status."""

    kind: str
    namespace: str
    name: str
    what: str
    status: bool = False


class Patching(ABC):
    """The calls of :class:`deviceshare_cluster.interface.Cluster` that write a part of an object."""

    @abstractmethod
    async def _patch(self, target: Target, patch: Callable[[Object], Object | None]) -> bool:
        """Read an object and write the merge patch (RFC 7386) that ``patch`` returns, None for nothing.

        Returns whether the object exists. Raises ClusterError, also after too many conflicts.
        """

    async def annotate(
        self,
        kind: str,
        namespace: str,
        name: str,
        annotations: Mapping[str, str | None],
        *,
        uid: str = "",
        expected: Mapping[str, str | None] = {},
    ) -> Mapping[str, str] | None:
        """Merge annotations into an object if it has the expected ones. Raises ClusterError."""
        current: Mapping[str, str] = {}

        def patch(found: Object) -> Object | None:
            nonlocal current
            after = annotated(found, annotations, expected)
            current = (found["metadata"].get("annotations") or {}) if after is None else after
            return None if after is None else {"metadata": {"annotations": dict(annotations)}}

        target = Target(kind, namespace, name, f"annotations of {kind} {namespace}/{name}")
        return current if await self._patch_same(target, uid, patch) else None

    async def set_pod_condition(
        self, namespace: str, name: str, uid: str, *, status: bool, reason: str, message: str, at: float
    ) -> None:
        """Write the condition ``PodScheduled`` of a pending pod. Raises ClusterError."""

        def patch(pod: Object) -> Object | None:
            if pod["spec"].get("nodeName"):
                return None
            if not set_condition(pod, status=status, reason=reason, message=message, at=at):
                return None
            return {"status": {"conditions": pod["status"]["conditions"]}}

        target = Target("Pod", namespace, name, f"condition of {namespace}/{name}", status=True)
        await self._patch_same(target, uid, patch)

    async def set_status(
        self,
        kind: str,
        namespace: str,
        name: str,
        uid: str,
        fields: Mapping[str, StatusValue],
        *,
        condition: Mapping[str, str] | None,
        at: float,
    ) -> None:
        """Write fields of an object's status, and a condition that is true. Raises ClusterError."""

        def patch(found: Object) -> Object | None:
            status = changed_status(found, fields, condition, at)
            return None if status is None else {"status": status}

        target = Target(kind, namespace, name, f"status of {kind} {namespace}/{name}", status=True)
        await self._patch_same(target, uid, patch)

    async def _patch_same(self, target: Target, uid: str, patch: Callable[[Object], Object | None]) -> bool:
        """Patch an object with this uid ('' for any); returns whether it exists."""
        same = True

        def checked(found: Object) -> Object | None:
            nonlocal same
            same = not uid or found["metadata"]["uid"] == uid
            return patch(found) if same else None

        return await self._patch(target, checked) and same
