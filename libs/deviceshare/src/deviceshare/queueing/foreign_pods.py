"""Bound pods of other schedulers: they count for what is committed, but in no queue."""

from collections import Counter

from deviceshare.model import PodFact, ResourceAmounts
from deviceshare.queueing.amounts import Counting
from deviceshare.queueing.queue_account import add


class ForeignPods:
    """Bound pods of other schedulers and their resources."""

    def __init__(self, counting: Counting) -> None:
        self.counting = counting
        self._pods: dict[str, tuple[PodFact, ResourceAmounts]] = {}
        self._by_cards: dict[str, PodFact] = {}
        """Those whose amounts depend on cards."""
        self.total: Counter[str] = Counter()

    def put(self, pod: PodFact) -> None:
        """Add or update a pod."""
        self.drop(pod.uid)
        amounts = self.counting.held(pod.ask, pod.held)
        self._pods[pod.uid] = (pod, amounts)
        if self.counting.depends_on_cards(pod.ask):
            self._by_cards[pod.uid] = pod
        add(self.total, amounts, 1)

    def drop(self, uid: str) -> None:
        """Remove a pod, if present."""
        self._by_cards.pop(uid, None)
        if (entry := self._pods.pop(uid, None)) is not None:
            add(self.total, entry[1], -1)

    def count_again(self) -> None:
        """Count the pods again whose amounts depend on cards."""
        for pod in list(self._by_cards.values()):
            self.put(pod)
