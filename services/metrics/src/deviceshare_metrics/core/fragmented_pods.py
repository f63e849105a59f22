"""Which pods wait only since what is free is scattered: by the reasons that placement gives, without another search."""

from collections import Counter, defaultdict
from collections.abc import Iterable

from deviceshare.families import device_resources
from deviceshare.model import PENDING, Explanation, Refusal
from deviceshare_bus.messages.subjects import fact

from deviceshare_metrics import api
from deviceshare_metrics.core.facts import decoded_request
from deviceshare_metrics.core.state_store import StateStore
from deviceshare_metrics.core.usage import Cards
from deviceshare_metrics.core.whole_cards import whole_models

_UNITS = ("MiB", "percent")


class FragmentedPods:
    """Finds them, in the whole cluster of a store."""

    def __init__(self, store: StateStore, cards: Cards) -> None:
        self._store = store
        self._resources = device_resources(store.conf)
        self._nodes: defaultdict[str, list[Counter[tuple[int, int]]]] = defaultdict(list)
        """How many cards with how much memory (MiB) and cores the nodes with cards of a model have."""
        for node in store.nodes.values():
            here: defaultdict[str, Counter[tuple[int, int]]] = defaultdict(Counter)
            for card in cards.of(node.name):
                here[card.type or "unknown"][cards.mebibytes(card, card.memory), card.cores] += 1
            for _, model, number in () if here else whole_models(node):
                here[model][0, 0] += number
            for model, found in here.items():
                self._nodes[model].append(found)
        self._known: dict[tuple[str, int, int, str], bool] = {}

    def model(self, explanation: Explanation | None) -> str:
        """Return the model of which enough is free in sum for the pod of an explanation, '' if it lacks anything else.

        A pod whose queue has no room waits for more, and one that no node could take if it were empty for other nodes.
        Nodes that lack something else do not count for the sum. A gang needs more than a reason says, which is of one
        pod, and a pod with several containers that request devices than one that is of one: they do not count.
        """
        if explanation is None or explanation.decision != PENDING or explanation.refused or explanation.gang:
            return ""
        if any(not refusal.nodes for refusal in explanation.refusals):
            return ""
        found = (model for model, refusal in explanation.enough_in_sum if self._fits_empty(model, refusal))
        model = next(found, "")
        return model if model and self._is_of_one_container(explanation.uid) else ""

    def _is_of_one_container(self, uid: str) -> bool:
        """Return whether one container of a pod requests devices, or none of those that are known."""
        if (pod := self._store.pods.get(fact("pod", uid))) is None:
            return True
        if (request := decoded_request(pod.ask)) is None:
            return False
        requesting = (
            any(name in self._resources or api.is_whole(name) for name, _ in each.resources)
            for each in request.containers
        )
        return sum(requesting) <= 1

    def _fits_empty(self, model: str, refusal: Refusal) -> bool:
        number, asked = (refusal.needed, refusal.asked) if refusal.needed else (refusal.asked, 0)
        if refusal.needed and refusal.unit not in _UNITS:
            return False
        key = (model, number, asked, refusal.unit)
        if key not in self._known:
            at = _UNITS.index(refusal.unit) if refusal.unit in _UNITS else 0
            enough = (sum(n for size, n in here.items() if size[at] >= asked) for here in self._nodes[model])
            self._known[key] = any(cards >= number for cards in enough)
        return self._known[key]


def count_by_model(pods: Iterable[api.Pod]) -> Counter[str]:
    """Return how many of these pods wait only for fragmentation, by the model of cards."""
    return Counter(pod.fragmented for pod in pods if pod.fragmented)
