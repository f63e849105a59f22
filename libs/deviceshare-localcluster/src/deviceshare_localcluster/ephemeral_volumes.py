"""The controller of generic ephemeral volumes of the local cluster: it makes their PersistentVolumeClaims.

The claim ``POD-VOLUME`` has labels, annotations and spec of the template, and its pod as the controlling owner, with
which garbage collection deletes it. A claim of this name that exists is left as it is, also that of another owner; a
deleted one is made again. Source: kubernetes pkg/controller/volume/ephemeral/controller.go.
"""

import logging
from collections.abc import Mapping

from deviceshare_cluster.interface import Change, ChangeType, ClusterError, Object
from deviceshare_cluster.readable import readable

from deviceshare_localcluster.cluster import LocalCluster
from deviceshare_localcluster.kinds import Key
from deviceshare_localcluster.owned_objects import child
from deviceshare_localcluster.volume_rules import CLAIM
from deviceshare_localcluster.work_list import WorkList

log = logging.getLogger("deviceshare.local_cluster")

KINDS = ("Pod", CLAIM)
"""The kinds that it follows."""
_MARK = b'"ephemeral"'
"""In the bytes of each pod that has such volumes."""


def ephemeral_claims(pod: Object) -> list[Object]:
    """Return the claims of the generic ephemeral volumes of an admitted pod; none if it is being deleted."""
    found: list[Object] = []
    if pod["metadata"].get("deletionTimestamp"):
        return found
    for volume in pod["spec"].get("volumes") or ():
        if volume.get("ephemeral"):
            template = volume["ephemeral"]["volumeClaimTemplate"]
            metadata = template.get("metadata") or {}
            given = {field: metadata.get(field) for field in ("labels", "annotations")}
            found.append(child(pod, CLAIM, f"{pod['metadata']['name']}-{volume['name']}", template["spec"], **given))
    return found


class EphemeralVolumes(WorkList):
    """Makes the claims of pods."""

    kinds = KINDS

    def __init__(self, cluster: LocalCluster) -> None:
        super().__init__(cluster)
        self._of_pod: dict[Key, list[Key]] = {}
        self._wanted: dict[Key, dict[Key, Object]] = {}
        """By claim and pod the claim to make: names of different pods and volumes can give the same name."""
        self._existing: set[Key] = set()

    def _changed(self, key: Key, change: Change) -> None:
        if key.kind == "Pod":
            self._pod_changed(key, change.raw)
        else:
            self._claim_changed(key, change.type)

    def _pod_changed(self, pod: Key, raw: bytes) -> None:
        """Apply a pod; ``raw`` is empty if it is gone."""
        for key in self._of_pod.pop(pod, ()):
            del self._wanted[key][pod]
            if not self._wanted[key]:
                del self._wanted[key]
                self.keys.pop(key, None)
        if _MARK not in raw:
            return
        claims = ephemeral_claims(readable("Pod", raw))
        wanted = {Key(CLAIM, pod.namespace, claim["metadata"]["name"]): claim for claim in claims}
        self._of_pod[pod] = list(wanted)
        for key, claim in wanted.items():
            self._wanted.setdefault(key, {})[pod] = claim
            if key not in self._existing:
                self.keys[key] = None

    def _claim_changed(self, key: Key, change: ChangeType) -> None:
        if change is not ChangeType.DELETED:
            self._existing.add(key)
            self.keys.pop(key, None)
            return
        self._existing.discard(key)
        if key in self._wanted:
            self.keys[key] = None

    async def _act_on_all(self, missing: Mapping[Key, None]) -> Mapping[Key, None]:
        # Those of an earlier error may not be missing any more.
        missing = {key: None for key in missing if key in self._wanted and key not in self._existing}
        try:
            for result in await self._cluster.make([next(iter(self._wanted[key].values())) for key in missing]):
                if result.problem is not None:
                    self._warnings.warn(str(result.problem))
        except ClusterError as error:
            log.warning("%s", error)
            return missing
        return {}
