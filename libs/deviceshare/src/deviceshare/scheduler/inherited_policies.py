"""The policies that PodGroups and queues set for their pods."""

from typing import TypeVar

from deviceshare.model import GroupKey, PodFact, PodGroupFact, Policies, QueueFact

_POD_GROUP, _QUEUE = "PodGroup", "Queue"
_K = TypeVar("_K", GroupKey, str)


class InheritedPolicies:
    """The PodGroups and queues that set policies: false while none does."""

    def __init__(self) -> None:
        self._groups: dict[GroupKey, Policies] = {}
        self._queues: dict[str, Policies] = {}

    def __bool__(self) -> bool:
        return bool(self._groups or self._queues)

    def set_group(self, key: GroupKey, fact: PodGroupFact | None, *, other_queue: bool) -> bool:
        """Note the policies of a PodGroup, None if it is gone; return whether its pods may have other ones now.

        ``other_queue``: whether its pods may be in another queue than before.
        """
        changed = _put(self._groups, key, fact)
        return changed or (other_queue and bool(self._queues))

    def set_queue(self, name: str, fact: QueueFact | None) -> bool:
        """Note the policies of a queue, None if it is gone; return whether its pods may have other ones now."""
        return _put(self._queues, name, fact)

    def of(self, pod: PodFact, queue: str) -> Policies:
        """Return the policies of a pod: its own, else those of its PodGroup, else those of its queue."""
        policies, group, of_queue = pod.ask.policies.own, self._groups.get(pod.group), self._queues.get(queue)
        if group is not None:
            policies = policies.with_defaults(group, _POD_GROUP)
        return policies if of_queue is None else policies.with_defaults(of_queue, _QUEUE)


def _put(known: dict[_K, Policies], key: _K, fact: PodGroupFact | QueueFact | None) -> bool:
    """Set the policies of an object, none if it sets none or is gone; return whether they changed."""
    before = known.pop(key, None)
    if fact is not None and (fact.policies.node or fact.policies.card):
        known[key] = fact.policies
    return before != known.get(key)
