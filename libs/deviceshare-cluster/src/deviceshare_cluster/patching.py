"""Annotations, conditions and statuses as merge patches: the calls that are the same on every cluster."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import NamedTuple

from deviceshare.model import FENCE, with_fence
from deviceshare.objects import SELECTED_NODE

from deviceshare_cluster.changes import annotated, changed_status, pod_state, reservation, set_condition
from deviceshare_cluster.device_claims import ClaimingPod, finalized, released, reserved, state_of, unfinalized
from deviceshare_cluster.interface import DeviceClaimState, Object, PodState, StatusValue, VolumeRequest


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
    async def _patch(
        self, target: Target, patch: Callable[[Object], Object | None], known: Object | None = None
    ) -> Object | None:
        """Read an object and write the merge patch (RFC 7386) that ``patch`` returns, None for nothing.

        ``known``: the object as an earlier call returned it: a cluster need not read it again.
        Returns the object after the call, None if there is none. Raises ClusterError, also after too many conflicts.
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
        unbound: bool = False,
    ) -> Mapping[str, str] | None:
        """Merge annotations into an object if it has the expected ones. Raises ClusterError."""
        current: Mapping[str, str] = {}

        def patch(found: Object) -> Object | None:
            nonlocal current
            bound = unbound and found["spec"].get("nodeName")
            after = None if bound else annotated(found, annotations, expected)
            current = (found["metadata"].get("annotations") or {}) if after is None else after
            return None if after is None else {"metadata": {"annotations": dict(annotations)}}

        target = Target(kind, namespace, name, f"annotations of {kind} {namespace}/{name}")
        return None if await self._patch_same(target, uid, patch) is None else current

    async def fence(self, namespace: str, name: str, uid: str, claim: str) -> PodState | None:
        """Add a claim to the fence of a pod that is not bound. Raises ClusterError."""

        def patch(pod: Object) -> Object | None:
            fence = with_fence(pod["metadata"].get("annotations") or {}, claim)
            bound = pod["spec"].get("nodeName")
            return None if bound or fence is None else {"metadata": {"annotations": {FENCE: fence}}}

        pod = await self._patch_same(Target("Pod", namespace, name, f"fence of {namespace}/{name}"), uid, patch)
        return None if pod is None else pod_state(pod)

    async def reserve_volume(self, name: str, namespace: str, claim: str, uid: str) -> VolumeRequest | None:
        """Reserve a PersistentVolume for a claim. Raises ClusterError."""

        def patch(volume: Object) -> Object | None:
            return reservation(volume, namespace, claim, uid)

        volume = await self._patch(Target("PersistentVolume", "", name, f"claim of PersistentVolume {name}"), patch)
        if volume is None:
            return None
        known = volume["spec"].get("claimRef") or {}
        same = (known.get("namespace"), known.get("name")) == (namespace, claim)
        metadata = volume["metadata"]
        terminating = bool(metadata.get("deletionTimestamp"))
        return VolumeRequest(known.get("uid", "") if same else "", metadata["resourceVersion"], terminating)

    async def select_node(self, namespace: str, claim: str, uid: str, node: str) -> VolumeRequest | None:
        """Select the node on which a volume is made for a claim. Raises ClusterError."""

        def patch(found: Object) -> Object | None:
            selected = (found["metadata"].get("annotations") or {}).get(SELECTED_NODE)
            if selected or found["spec"].get("volumeName"):
                return None
            return {"metadata": {"annotations": {SELECTED_NODE: node}}}

        target = Target("PersistentVolumeClaim", namespace, claim, f"node of the claim {namespace}/{claim}")
        found = await self._patch_same(target, uid, patch)
        if found is None:
            return None
        bound = node if found["spec"].get("volumeName") else ""
        selected = (found["metadata"].get("annotations") or {}).get(SELECTED_NODE, "")
        return VolumeRequest(selected or bound, found["metadata"]["resourceVersion"])

    async def allocate_claim(
        self, namespace: str, name: str, uid: str, allocation: Object | None, pod: tuple[str, str], untouched: str = ""
    ) -> DeviceClaimState | None:
        """Allocate a ResourceClaim and reserve it for a pod. Raises ClusterError."""
        user = ClaimingPod(*pod)
        target = Target("ResourceClaim", namespace, name, f"finalizer of ResourceClaim {namespace}/{name}")
        metadata = {"namespace": namespace, "name": name, "uid": uid, "resourceVersion": untouched}
        known: Object | None = {"metadata": metadata} if untouched else None
        known = await self._patch_same(target, uid, lambda claim: finalized(claim, allocation), known)
        if known is None:
            return None
        target = target._replace(what=f"allocation of ResourceClaim {namespace}/{name}", status=True)
        found = await self._patch_same(target, uid, lambda claim: reserved(claim, allocation, user), known)
        return None if found is None else state_of(found, allocation, user)

    async def release_claim(
        self, namespace: str, name: str, uid: str, allocation: Object | None, pod: tuple[str, str]
    ) -> None:
        """Take a ResourceClaim from a pod. Raises ClusterError."""
        user = ClaimingPod(*pod)
        target = Target(
            "ResourceClaim", namespace, name, f"allocation of ResourceClaim {namespace}/{name}", status=True
        )
        await self._patch_same(target, uid, lambda claim: released(claim, allocation, user))
        target = target._replace(what=f"finalizer of ResourceClaim {namespace}/{name}", status=False)
        await self._patch_same(target, uid, unfinalized)

    async def set_pod_condition(
        self, namespace: str, name: str, uid: str, *, status: bool, reason: str, message: str, at: float
    ) -> PodState | None:
        """Write the condition ``PodScheduled`` of a pending pod. Raises ClusterError."""

        def patch(pod: Object) -> Object | None:
            if pod["spec"].get("nodeName"):
                return None
            if not set_condition(pod, status=status, reason=reason, message=message, at=at):
                return None
            return {"status": {"conditions": pod["status"]["conditions"]}}

        target = Target("Pod", namespace, name, f"condition of {namespace}/{name}", status=True)
        pod = await self._patch_same(target, uid, patch)
        return None if pod is None else pod_state(pod)

    async def nominate(self, namespace: str, name: str, uid: str, node: str, *, withdraw: bool = False) -> None:
        """Write or remove the nominated node of a pod that is not bound. Raises ClusterError."""

        def patch(pod: Object) -> Object | None:
            nominated = (pod.get("status") or {}).get("nominatedNodeName", "")
            if pod["spec"].get("nodeName") or (nominated == node) != withdraw:
                return None
            return {"status": {"nominatedNodeName": None if withdraw else node}}

        target = Target("Pod", namespace, name, f"nominated node of {namespace}/{name}", status=True)
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

    async def _patch_same(
        self, target: Target, uid: str, patch: Callable[[Object], Object | None], known: Object | None = None
    ) -> Object | None:
        """Patch an object with this uid ('' for any); returns it, None if there is none."""
        same = True

        def checked(found: Object) -> Object | None:
            nonlocal same
            same = not uid or found["metadata"]["uid"] == uid
            return patch(found) if same else None

        found = await self._patch(target, checked, known)
        return found if same else None
