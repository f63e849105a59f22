"""The PriorityClasses of the cluster."""

from deviceshare.model import PodGroupFact, PriorityClassFact


class PriorityClasses:
    """The PriorityClasses by name."""

    def __init__(self) -> None:
        self._facts: dict[str, PriorityClassFact] = {}

    def put(self, name: str, fact: PriorityClassFact | None) -> None:
        """Add or update a PriorityClass, None if it is gone."""
        self._facts.pop(name, None)
        if fact is not None:
            self._facts[name] = fact

    def of(self, group: PodGroupFact) -> int:
        """Return a PodGroup's priority: that of its class, else of the default class, else 0.

        Source: Volcano pkg/scheduler/cache (Snapshot). The priorities of its pods do not count.
        """
        fact = self._facts.get(group.priority_class)
        if fact is not None:
            return fact.value
        return max((other.value for other in self._facts.values() if other.default), default=0)
