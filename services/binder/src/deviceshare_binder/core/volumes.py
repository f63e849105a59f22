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

    ``failed``: why they cannot be bound, '' if they can; ``unknown``: the name of an object that is not known (yet);
    ``open``: the PersistentVolumeClaims that are not bound.
    """

    failed: str = ""
    unknown: str = ""
    open: tuple[VolumeBinding, ...] = ()


class Volumes:
    """The PersistentVolumeClaims and PersistentVolumes of CLUSTER, and the tasks that wait for them."""

    def __init__(self) -> None:
        self._claims: dict[str, VolumeClaimView] = {}
        self._volumes: dict[str, VolumeView] = {}
        self._waiting: defaultdict[str, set[str]] = defaultdict(set)
        """By the name of a volume, or ``namespace/name`` of a claim, the claims of the ledger that wait for it."""
        self._names: dict[str, set[str]] = {}
        """By claim of the ledger what it waits for."""

    def put_claim(self, key: str, view: VolumeClaimView | None) -> list[str]:
        """Apply a PersistentVolumeClaim, None if it is gone; return the claims of the ledger that wait for it."""
        if view is None:
            self._claims.pop(key, None)
        else:
            self._claims[key] = view
        return sorted(self._waiting.get(key, ()))

    def put_volume(self, name: str, view: VolumeView | None) -> list[str]:
        """Apply a PersistentVolume, None if it is gone; return the claims of the ledger that wait for it."""
        if view is None:
            self._volumes.pop(name, None)
        else:
            self._volumes[name] = view
        return sorted(self._waiting.get(name, ()))

    def forget(self, claim: str) -> None:
        """Forget a claim of the ledger, which waits no more."""
        for name in self._names.pop(claim, ()):
            waiting = self._waiting[name]
            waiting.discard(claim)
            if not waiting:
                del self._waiting[name]

    def progress(self, task: BindTask, node: NodeView) -> Progress:
        """Return how far the volumes of a task are; from now on it waits for those that are not bound."""
        self.forget(task.claim.id)
        unknown, open_bindings, names = "", [], set()
        for binding in task.claim.bindings:
            names.add(binding.claim)
            claim = self._claims.get(binding.claim)
            volume = binding.volume if claim is None else claim.volume or binding.volume
            if volume:
                names.add(volume)
            if claim is None:
                unknown = unknown or f"PersistentVolumeClaim {binding.claim}"
            elif failed := self._failed(binding, claim, node, task.volume_revisions):
                return Progress(failed=failed)
            elif claim.bound and claim.volume not in self._volumes:
                unknown = unknown or f"PersistentVolume {claim.volume}"
            elif not claim.bound:
                open_bindings.append(binding)
        if unknown or open_bindings:
            self._names[task.claim.id] = names
            for name in names:
                self._waiting[name].add(task.claim.id)
        return Progress(unknown=unknown, open=tuple(open_bindings))

    def _failed(
        self, binding: VolumeBinding, claim: VolumeClaimView, node: NodeView, written: dict[str, str] | None
    ) -> str:
        """Return why a claim cannot be bound as it was decided, '' if it can.

        ``written``: the revisions of claims and volumes after the binder's own writes, None before these.
        """
        name = f"PersistentVolumeClaim {binding.claim}"
        if claim.uid != binding.uid:
            return f"{name} is another one than at the time of the decision: its uid is {claim.uid}"
        if claim.terminating:
            return f"{name} is being deleted"
        if claim.lost:
            return f"{name} is bound to PersistentVolume {claim.volume}, which does not exist"
        if claim.volume and binding.volume not in ("", claim.volume):
            return f"{name} was bound to PersistentVolume {claim.volume} instead of {binding.volume}"
        volume = self._volumes.get(claim.volume or binding.volume)
        if volume is not None and not _allows(volume, node):
            return f"the node affinity of PersistentVolume {volume.name} does not match node {node.name}"
        if claim.volume or written is None:
            return ""
        if binding.volume:
            reset = volume is not None and (volume.claim, volume.claim_uid) != (binding.claim, binding.uid)
            if volume is not None and reset and _shows(volume.revision, written.get(volume.name, "")):
                return f"PersistentVolume {volume.name} is not reserved for {name} any more"
        elif claim.selected_node != binding.node and _shows(claim.revision, written.get(binding.claim, "")):
            return f"no volume was made for {name}: its provisioner rejected node {binding.node}"
        return ""


def with_bindings(claim: Claim, known: Claim) -> Claim:
    """Return a claim with the bindings by which it is known: an earlier version of placement writes it without them."""
    return claim if claim.bindings or not known.bindings else replace(claim, bindings=known.bindings)


def _shows(revision: str, written: str) -> bool:
    """Return whether a fact is not older than a write of its object."""
    return bool(written) and revision_number(revision) >= revision_number(written)


def _allows(volume: VolumeView, node: NodeView) -> bool:
    """Return whether the required node affinity of a volume matches a node."""
    return matches(Rule(node_terms=volume.node_terms), NodeFact(name=node.name, labels=node.labels))
