"""Binding the volumes of a pod before the pod: what is still to be done for a claim, and why it fails.

Placement decides for each unbound PersistentVolumeClaim which PersistentVolume it is bound to, or that its provisioner
makes one on the node. The binder reserves the volumes and selects the node for the others (:class:`.BindVolumes`);
Kubernetes' controllers and provisioners do the rest, which facts show. Source: kubernetes
pkg/scheduler/framework/plugins/volumebinding/binder.go (``BindPodVolumes``, ``checkBindings``).
"""

from collections import defaultdict
from typing import NamedTuple

from deviceshare.allocation import Rule, matches
from deviceshare.model import Claim, NodeFact, VolumeBinding, revision_number
from msgspec.structs import replace

from deviceshare_binder.core.bind_task import BindTask
from deviceshare_binder.core.views import NodeView, VolumeClaimView, VolumeView


class Progress(NamedTuple):
    """How far the volumes of a claim are.

    ``failed``: why they cannot be bound, '' if they can; ``doubtful``: placement may have newer facts than those by
    which they cannot; ``unknown``: the name of an object that is not known (yet); ``open``: the PersistentVolumeClaims
    that are not bound; ``vanished``: whether the fact of a PersistentVolume was deleted while the task waited for it.
    """

    failed: str = ""
    doubtful: bool = False
    unknown: str = ""
    open: tuple[VolumeBinding, ...] = ()
    vanished: bool = False


class Volumes:
    """The PersistentVolumeClaims and PersistentVolumes of CLUSTER, and the tasks that wait for them."""

    def __init__(self) -> None:
        self._claims: dict[str, VolumeClaimView] = {}
        self._volumes: dict[str, VolumeView] = {}
        self._waiting: defaultdict[str, set[str]] = defaultdict(set)
        """By the name of a volume, or ``namespace/name`` of a claim, the claims of the ledger that wait for it."""
        self._names: dict[str, set[str]] = {}
        """By claim of the ledger what it waits for."""
        self._deleted: dict[str, str] = {}
        """The uids of PersistentVolumeClaims that were deleted while claims of the ledger waited for them."""
        self._vanished: set[str] = set()
        """The claims of the ledger for which the fact of a PersistentVolume was deleted while they waited for it."""

    def put_claim(self, key: str, view: VolumeClaimView | None) -> list[str]:
        """Apply a PersistentVolumeClaim, None if it is gone; return the claims of the ledger that wait for it."""
        before = self._claims.pop(key, None)
        if view is not None:
            self._claims[key] = view
            self._deleted.pop(key, None)
        elif before is not None and key in self._waiting:
            self._deleted[key] = before.uid
        return sorted(self._waiting.get(key, ()))

    def put_volume(self, name: str, view: VolumeView | None) -> list[str]:
        """Apply a PersistentVolume, None if it is gone; return the claims of the ledger that wait for it."""
        before = self._volumes.pop(name, None)
        waiting = self._waiting.get(name, set())
        if view is not None:
            self._volumes[name] = view
        elif before is not None:
            self._vanished |= waiting
        return sorted(waiting)

    def requested(self, claim: str) -> None:
        """Note that the volumes of a claim of the ledger are requested: the answer shows which of them exist."""
        self._vanished.discard(claim)

    def forget(self, claim: str) -> None:
        """Forget a claim of the ledger, which waits no more."""
        self._wait(claim, set())
        self._vanished.discard(claim)

    def _wait(self, claim: str, names: set[str]) -> None:
        """Let a claim of the ledger wait for these claims and volumes, and for no others."""
        before = self._names.pop(claim, set())
        if names:
            self._names[claim] = names
        for name in names - before:
            self._waiting[name].add(claim)
        for name in before - names:
            waiting = self._waiting[name]
            waiting.discard(claim)
            if not waiting:
                del self._waiting[name]
                self._deleted.pop(name, None)

    def progress(self, task: BindTask, node: NodeView) -> Progress:
        """Return how far the volumes of a task are; from now on it waits for those that are not bound."""
        found = self._progress(task, node)
        if not (found.failed or found.unknown or found.open):
            self.forget(task.claim.id)
        return found

    def _progress(self, task: BindTask, node: NodeView) -> Progress:
        unknown, open_bindings, names = "", [], set()
        for binding in task.claim.bindings:
            claim = self._claims.get(binding.claim)
            names |= {binding.claim, binding.volume if claim is None else claim.volume or binding.volume} - {""}
        self._wait(task.claim.id, names)
        for binding in task.claim.bindings:
            claim = self._claims.get(binding.claim)
            if claim is None and self._deleted.get(binding.claim) == binding.uid:
                return Progress(failed=f"PersistentVolumeClaim {binding.claim} was deleted")
            if claim is None:
                unknown = unknown or f"PersistentVolumeClaim {binding.claim}"
            elif found := self._failed(binding, claim, node, task.volume_revisions):
                return found
            elif claim.bound and claim.volume not in self._volumes:
                unknown = unknown or f"PersistentVolume {claim.volume}"
            elif not claim.bound:
                open_bindings.append(binding)
        return Progress(unknown=unknown, open=tuple(open_bindings), vanished=task.claim.id in self._vanished)

    def _failed(
        self, binding: VolumeBinding, claim: VolumeClaimView, node: NodeView, written: dict[str, str] | None
    ) -> Progress | None:
        """Return why a claim cannot be bound as it was decided, None if it can.

        ``written``: the revisions of claims and volumes after the binder's own writes, None before these. Before, the
        facts of the claim, the volume and the node may be older than those of placement: what another object of the
        same name, or other labels, would change is in doubt.
        """
        name, doubtful = f"PersistentVolumeClaim {binding.claim}", written is None
        if claim.uid != binding.uid:
            reason = f"{name} is another one than at the time of the decision: its uid is {claim.uid}"
            return Progress(reason, doubtful)
        if claim.terminating:
            return Progress(f"{name} is being deleted")
        if claim.lost:
            return Progress(f"{name} is bound to PersistentVolume {claim.volume}, which does not exist")
        if claim.volume and binding.volume not in ("", claim.volume):
            return Progress(f"{name} was bound to PersistentVolume {claim.volume} instead of {binding.volume}")
        volume = self._volumes.get(claim.volume or binding.volume)
        # The fact of a volume that the binder has written may still be that of an earlier volume of this name.
        if volume is not None and not _shows(volume.revision, (written or {}).get(volume.name, "0")):
            volume = None
        if volume is not None and not _allows(volume, node):
            reason = f"the node affinity of PersistentVolume {volume.name} does not match node {node.name}"
            return Progress(reason, doubtful)
        if claim.volume or written is None:
            return None
        if volume is not None and volume.terminating:
            return Progress(f"PersistentVolume {volume.name} is being deleted")
        if volume is not None and (volume.claim, volume.claim_uid) != (binding.claim, binding.uid):
            return Progress(f"PersistentVolume {volume.name} is not reserved for {name} any more")
        rejected = bool(binding.node) and claim.selected_node != binding.node
        if rejected and _shows(claim.revision, written.get(binding.claim, "")):
            return Progress(f"no volume was made for {name}: its provisioner rejected node {binding.node}")
        return None


def with_bindings(claim: Claim, known: Claim) -> Claim:
    """Return a claim with the bindings by which it is known: an earlier version of placement writes it without them."""
    return claim if claim.bindings or not known.bindings else replace(claim, bindings=known.bindings)


def _shows(revision: str, written: str) -> bool:
    """Return whether a fact is not older than a write of its object."""
    return bool(written) and revision_number(revision) >= revision_number(written)


def _allows(volume: VolumeView, node: NodeView) -> bool:
    """Return whether the required node affinity of a volume matches a node."""
    return matches(Rule(node_terms=volume.node_terms), NodeFact(name=node.name, labels=node.labels))
