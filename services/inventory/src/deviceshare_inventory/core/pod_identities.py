"""The uid under which each pod is published: its own, unless another pod has the same one.

Of several pods with one uid the first that was seen is the owner and keeps the uid; while the cluster is listed for the
first time a bound pod has precedence, since claims may be its own. The others are published under an alias, with a
problem that names the owner, and one of them follows when the owner is deleted.
"""

from deviceshare.model import GroupKey, PodFact, PodUid, Problem, alias
from deviceshare_cluster.interface import Change
from msgspec.structs import replace


class PodIdentities:
    """Uids by pod (``namespace/name``), and the owners of uids."""

    def __init__(self) -> None:
        self._published: dict[str, PodUid] = {}
        """The uid under which a pod is published, by pod."""
        self._previous: dict[str, PodUid] = {}
        """``_published`` from before the list that is being delivered."""
        self._owners: dict[str, str] = {}
        """Pods by uid."""
        self._unbound: set[str] = set()
        """Uids whose owner was seen for the first time in this list, not bound."""
        self._others: dict[str, dict[str, Change]] = {}
        """By uid, the other pods with this uid and the last change of each."""
        self._freed: list[Change] = []
        self.ambiguous = False
        """Whether the owner of a uid was replaced during the list: its pods have to be delivered again."""

    def load(self, fact: PodFact) -> None:
        """Record a pod that was on CLUSTER at start."""
        self._published[fact.ref] = fact.uid
        self._owners.setdefault(fact.uid, fact.ref)

    def begin_list(self) -> None:
        """Begin a list of the cluster, which delivers all pods again."""
        self._previous, self._published = self._previous | self._published, {}
        self._others.clear()
        self.ambiguous = False

    def end_list(self) -> None:
        """End the list: pods that were not in it are gone."""
        self._previous = {}
        self._unbound.clear()
        for uid, ref in list(self._owners.items()):
            if self._published.get(ref) != uid:
                self._free(uid)

    def identify(self, pod: PodFact, change: Change, *, listing: bool) -> PodFact:
        """Return a pod under the uid that identifies it on the bus."""
        uid, ref = pod.uid, pod.ref
        owner = self._owners.get(uid)
        if owner is None:
            owner = self._owners[uid] = ref
            if listing and not pod.node:
                self._unbound.add(uid)
        elif owner != ref and uid in self._unbound and pod.node:
            owner = self._owners[uid] = ref
            self._unbound.discard(uid)
            self.ambiguous = True
        if owner == ref:
            return pod
        self._others.setdefault(uid, {})[ref] = change
        problem = Problem(f"Pod {ref}", "metadata.uid", uid, f"a uid of its own: Pod {owner} has the same")
        group = pod.group if pod.podgroup else GroupKey(f"pod/{alias(uid, ref)}")
        return replace(pod, uid=alias(uid, ref), group=group, problems=(*pod.problems, problem))

    def publish(self, ref: str, uid: PodUid | None) -> PodUid | None:
        """Record the uid under which a pod is published now, None if it is gone; return another one from before."""
        before = self._published.pop(ref, None) or self._previous.pop(ref, None)
        if uid is not None:
            self._published[ref] = uid
        if before is None or before == uid or self._owners.get(before, ref) != ref:
            return None
        if self._owners.get(before) == ref:
            self._free(before)
        for of_uid, others in list(self._others.items()):
            if ref in others and alias(of_uid, ref) != uid:
                del others[ref]
                if not others:
                    del self._others[of_uid]
        return before

    def take_freed(self) -> list[Change]:
        """Return the changes to apply again, since the uid of their pods has no owner any more."""
        freed, self._freed = self._freed, []
        return freed

    def _free(self, uid: str) -> None:
        del self._owners[uid]
        self._unbound.discard(uid)
        if uid in self._others:
            self._freed += self._others.pop(uid).values()
