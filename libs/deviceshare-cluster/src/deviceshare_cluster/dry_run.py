"""A cluster that is only read: decisions are made and compared, and nothing of them is written (``--dry-run``)."""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Self

from deviceshare_cluster.changes import pod_state
from deviceshare_cluster.eviction import EvictAnswer, EvictState
from deviceshare_cluster.interface import (
    Binding,
    BindState,
    Change,
    Cluster,
    DeviceClaimState,
    EventRecord,
    Listed,
    Object,
    PodState,
    Revisions,
    StatusValue,
    VolumeRequest,
)

DRY_RUN = (
    "write nothing to the cluster, beside another scheduler that serves the same pods: it binds them, and its choices "
    "are compared with the decisions; nothing is signed, and no signature is required"
)
"""The help of the option ``--dry-run``."""
NOTHING_WRITTEN = "nothing is written to the cluster (--dry-run)"


class DryRunCluster(Cluster):
    """Reads a cluster; a write does nothing, and has the answer of one that changed nothing."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def __aenter__(self) -> Self:
        await self._cluster.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._cluster.__aexit__(*error)

    def watch(self, kinds: Sequence[str], window: float = 0.0) -> AsyncIterator[list[Change | Listed]]:
        """Watch the cluster."""
        return self._cluster.watch(kinds, window)

    async def list(self, kind: str) -> list[Object]:
        """Return all objects of a kind."""
        return await self._cluster.list(kind)

    async def revisions(self, kind: str) -> Revisions:
        """Return the revision of each object of a kind."""
        return await self._cluster.revisions(kind)

    async def get(self, kind: str, namespace: str, name: str) -> Object | None:
        """Return one object."""
        return await self._cluster.get(kind, namespace, name)

    async def ensure(self, obj: Object) -> None:
        """Do nothing."""

    async def bind(
        self, namespace: str, name: str, uid: str, node: str, annotations: Mapping[str, str], *, revision: str = ""
    ) -> Binding:
        """Refuse it."""
        return Binding(BindState.REFUSED, reason=NOTHING_WRITTEN)

    async def fence(self, namespace: str, name: str, uid: str, claim: str) -> PodState | None:
        """Return the pod: no request to bind it was sent."""
        pod = await self._cluster.get("Pod", namespace, name)
        return None if pod is None or pod["metadata"].get("uid") != uid else pod_state(pod)

    async def evict(
        self, namespace: str, name: str, uid: str, *, dry_run: bool = False, grace: int | None = None
    ) -> EvictAnswer:
        """Forbid it, also with ``dry_run``, for which the API server is asked by a write: no pod goes for another."""
        return EvictAnswer(EvictState.FORBIDDEN, NOTHING_WRITTEN)

    async def nominate(self, namespace: str, name: str, uid: str, node: str, *, withdraw: bool = False) -> None:
        """Do nothing."""

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
        """Do nothing, as if there were no such object."""
        return None

    async def reserve_volume(self, name: str, namespace: str, claim: str, uid: str) -> VolumeRequest | None:
        """Do nothing, as if there were no such volume."""
        return None

    async def select_node(self, namespace: str, claim: str, uid: str, node: str) -> VolumeRequest | None:
        """Do nothing, as if there were no such claim."""
        return None

    async def allocate_claim(
        self, namespace: str, name: str, uid: str, allocation: Object | None, pod: tuple[str, str], untouched: str = ""
    ) -> DeviceClaimState | None:
        """Do nothing, as if there were no such claim."""
        return None

    async def release_claim(
        self, namespace: str, name: str, uid: str, allocation: Object | None, pod: tuple[str, str]
    ) -> None:
        """Do nothing."""

    async def set_pod_condition(
        self, namespace: str, name: str, uid: str, *, status: bool, reason: str, message: str, at: float
    ) -> PodState | None:
        """Do nothing, as if there were no such pod."""
        return None

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
        """Do nothing."""

    async def record_event(self, event_record: EventRecord) -> None:
        """Do nothing."""
