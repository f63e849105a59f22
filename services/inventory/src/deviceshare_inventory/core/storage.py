"""The objects of storage, and which of them concern pods: only these are on CLUSTER.

Nothing is published before a pod that deviceshare places uses a PersistentVolumeClaim. From then on, until the cluster
is listed again, these are published: the claims of all published pods, since the volumes of other pods are attached to
the same nodes; the volumes of these claims; while one of these claims waits for its first pod, the volumes of its class
that can be bound to it; all StorageClasses; and the limits of nodes.
"""

from collections import defaultdict
from collections.abc import Iterator

from deviceshare.model import (
    Fact,
    PodFact,
    StorageClassFact,
    StorageFact,
    VolumeClaimFact,
    VolumeFact,
    VolumeLimitsFact,
    revision_number,
)
from deviceshare_bus.messages.subjects import fact as fact_subject
from msgspec.structs import replace

_ORDER = ("volumelimits", "storageclass", "volume", "volumeclaim")
"""The kinds of facts in the order in which they are published: readers know a claim with all that it names."""


class Storage:
    """The objects of storage, and the pods that use claims. ``schedulers``: those that deviceshare serves."""

    def __init__(self, schedulers: frozenset[str]) -> None:
        self._schedulers = schedulers
        self._facts: dict[str, StorageFact] = {}
        self._used: dict[str, tuple[str, ...]] = {}
        """By uid of a pod the subjects of the claims that it uses."""
        self._users: defaultdict[str, set[str]] = defaultdict(set)
        """By subject of a claim the uids of the pods that use it."""
        self._claims_of: defaultdict[str, set[str]] = defaultdict(set)
        """By subject of a volume the subjects of the claims that name it."""
        self._reserved: defaultdict[str, set[str]] = defaultdict(set)
        """By subject of a claim the subjects of the volumes that name it."""
        self._of_class: defaultdict[str, set[str]] = defaultdict(set)
        """By StorageClass the subjects of its volumes."""
        self._waiting: defaultdict[str, set[str]] = defaultdict(set)
        """By StorageClass the subjects of claims without a volume that pods use."""
        self._changed: dict[str, None] = {}
        """Subjects whose fact on CLUSTER may have to change."""
        self._published: set[str] = set()
        self._withdrawn: dict[str, int] = {}
        """Subjects of existing objects whose fact was deleted, and the cluster's revision then."""
        self.active = False
        """Whether a pod that deviceshare places uses a claim, or did since the cluster was listed."""

    def begin_list(self) -> None:
        """Forget everything: all objects will be delivered again."""
        for known in (self._facts, self._used, self._users, self._changed, self._published):
            known.clear()
        for index in (self._claims_of, self._reserved, self._of_class, self._waiting):
            index.clear()
        self.active = False

    def end_list(self) -> None:
        """Forget the objects that were not in the list."""
        self._withdrawn = {subject: at for subject, at in self._withdrawn.items() if subject in self._facts}

    def put(self, subject: str, fact: StorageFact | None) -> None:
        """Apply an object, None if it is gone."""
        before = self._facts.pop(subject, None)
        if fact is not None:
            self._facts[subject] = fact
        else:
            self._withdrawn.pop(subject, None)
        for each, add in ((before, False), (fact, True)):
            match each:
                case VolumeClaimFact():
                    if each.volume:
                        self._name(fact_subject("volume", each.volume), subject, add=add)
                case VolumeFact():
                    _index(self._of_class, each.storage_class, subject, add=add)
                    if each.claim:
                        _index(self._reserved, fact_subject("volumeclaim", each.claim), subject, add=add)
                case StorageClassFact():
                    for volume in self._of_class.get(each.name, ()):
                        self._mark(volume)
        claims = [each if isinstance(each, VolumeClaimFact) else None for each in (before, fact)]
        self._set_waiting(subject, *claims)
        self._mark(subject)

    def use(self, pod: PodFact) -> None:
        """Apply a pod that is published."""
        uses = () if pod.ended else tuple(fact_subject("volumeclaim", use.claim) for use in pod.volume_uses)
        if not self.active and uses and pod.scheduler in self._schedulers:
            self.active = True
            self._changed = dict.fromkeys(self._facts)
        if self._used.get(pod.uid, ()) != uses:
            self.forget(pod.uid)
            if uses:
                self._used[pod.uid] = uses
            for subject in uses:
                self._users[subject].add(pod.uid)
                self._touch(subject)

    def forget(self, uid: str) -> None:
        """Apply that a pod is not published any more."""
        for subject in self._used.pop(uid, ()):
            users = self._users[subject]
            users.discard(uid)
            if not users:
                del self._users[subject]
            self._touch(subject)

    def take(self, revision: int) -> Iterator[tuple[str, StorageFact | None]]:
        """Yield the subjects whose fact on CLUSTER may have to change, with the fact that it should be, or None.

        Objects come before those that name them. ``revision`` is the cluster's: a fact that was deleted since no pod
        needed it, and comes back, has at least this revision, though its object is older.
        """
        changed, self._changed = self._changed, {}
        for subject in sorted(changed, key=_place):
            fact = self._facts.get(subject)
            if fact is not None and self._concerns(subject, fact):
                self._published.add(subject)
                deleted = self._withdrawn.get(subject, 0)
                if revision_number(fact.revision) < deleted:
                    fact = replace(fact, revision=str(deleted + 1))
                yield subject, fact
            elif subject in self._published:
                self._published.discard(subject)
                if fact is not None:
                    self._withdrawn[subject] = revision
                yield subject, None

    def _concerns(self, subject: str, fact: Fact) -> bool:
        match fact:
            case VolumeClaimFact():
                return subject in self._users
            case VolumeFact():
                named = any(claim in self._users for claim in self._claims_of.get(subject, ()))
                return named or self._can_be_bound(fact)
            case VolumeLimitsFact():
                return bool(fact.drivers)
            case _:
                return isinstance(fact, StorageClassFact)

    def _can_be_bound(self, volume: VolumeFact) -> bool:
        """Return whether a volume can be bound to a claim that pods use and that waits for its first pod."""
        of_class = self._facts.get(fact_subject("storageclass", volume.storage_class)) if volume.storage_class else None
        if volume.storage_class not in self._waiting or not (isinstance(of_class, StorageClassFact) and of_class.waits):
            return False
        return fact_subject("volumeclaim", volume.claim) in self._users if volume.claim else volume.available

    def _set_waiting(self, subject: str, before: VolumeClaimFact | None, after: VolumeClaimFact | None) -> None:
        """Apply that a claim exists, has changed, or is used, or not; if it is the first or the last one of its class:
        the volumes of the class are published or not.
        """
        classes = {each.storage_class: each.storage_class in self._waiting for each in (before, after) if each}
        if before is not None:
            _index(self._waiting, before.storage_class, subject, add=False)
        if after is not None:
            waits = not after.volume and subject in self._users
            _index(self._waiting, after.storage_class, subject, add=waits)
        for of_class, waited in classes.items():
            if waited != (of_class in self._waiting):
                for volume in self._of_class.get(of_class, ()):
                    self._mark(volume)

    def _touch(self, claim: str) -> None:
        """Look again whether a claim, its volume and those reserved for it are published."""
        self._mark(claim)
        fact = self._facts.get(claim)
        if isinstance(fact, VolumeClaimFact):
            self._set_waiting(claim, None, fact)
            if fact.volume:
                self._mark(fact_subject("volume", fact.volume))
        for volume in self._reserved.get(claim, ()):
            self._mark(volume)

    def _name(self, volume: str, claim: str, *, add: bool) -> None:
        """Apply that a claim names a volume, or does so no longer."""
        _index(self._claims_of, volume, claim, add=add)
        self._mark(volume)

    def _mark(self, subject: str) -> None:
        if self.active:  # else nothing is published
            self._changed[subject] = None


def _place(subject: str) -> int:
    return _ORDER.index(subject.split(".", 2)[1])


def _index(index: defaultdict[str, set[str]], key: str, subject: str, *, add: bool) -> None:
    """Add a subject to the set of a key, or remove it; sets are never empty."""
    if add:
        index[key].add(subject)
    elif (found := index.get(key)) is not None:
        found.discard(subject)
        if not found:
            del index[key]
