"""What is counted over the whole cluster, from the snapshots of its parts. Pure."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence

from deviceshare.model import PodGroupFact

from deviceshare_metrics import api
from deviceshare_metrics.api import Device, Pod
from deviceshare_metrics.core import Snapshot
from deviceshare_metrics.core.fragmented_pods import count_by_model
from deviceshare_metrics.core.states import OTHER, node_state
from deviceshare_metrics.core.usage import overcommitted
from deviceshare_metrics.free_cards import closed_nodes, whole_free

MIB = 1024 * 1024
OTHER_KIND = "(other)"
"""In place of kinds of owners that are not named."""
_LONGEST_KIND = 63
"""Characters of the longest kind that Kubernetes serves, a DNS label. For a longer label, which any pod may have in its
owner references, Prometheus would refuse the whole scrape where its ``label_value_length_limit`` is less."""
AMOUNTS: tuple[tuple[str, str, Callable[[Device], float]], ...] = (
    ("cards", "Cards", lambda _: 1),
    ("cards_healthy", "Cards that the device plugin reports as healthy", lambda card: card.healthy),
    ("cards_cordoned", "Cards that are cordoned: they get no further pods", lambda card: card.cordon is not None),
    ("card_memory_bytes", "Memory of the cards", lambda card: card.memory_total * MIB),
    ("card_memory_allocated_bytes", "Memory allocated on the cards", lambda card: card.memory_used * MIB),
    ("card_cores", "Compute of the cards: percent, or AI cores", lambda card: card.cores_total),
    ("card_cores_allocated", "Compute allocated on the cards", lambda card: card.cores_used if card.cores_total else 0),
    ("card_slots", "Shares that the cards can be divided into", lambda card: card.slots_total),
    ("card_slots_allocated", "Shares that are allocated", lambda card: card.slots_used),
)
"""What is summed up of cards: the end of the metric's name, its meaning, and the amount of a card."""


class Totals:
    """Counts, sums and extremes; each is the same whatever the parts are."""

    def __init__(self) -> None:
        self.nodes = Counter[str]()
        """By state, as ``pods``, ``claims`` and ``resource_claims``."""
        self.pods = Counter[str]()
        self.claims = Counter[str]()
        self.resource_claims = Counter[str]()
        self.queue_pods = Counter[tuple[str, str]]()
        """Pods by queue and state."""
        self.pending = Counter[str]()
        """Pending pods by group."""
        self.jobs = Counter[str]()
        """Pods of groups that are PodGroups."""
        self._waiting = Counter[str]()
        """Pending and gated pods of these."""
        self.oldest_open: list[float] = []
        """When the oldest open claim was decided, in unix seconds, if any is open."""
        self.oldest_pending: dict[str, float] = {}
        """By queue, the creation of the oldest pending pod."""
        self.device_problems = Counter[str]()
        """Problems of the devices of bound pods, by kind."""
        self.unschedulable = Counter[str]()
        """Pending pods by the codes of their reasons."""
        self.unconfirmed = self.binding_volumes = self.going = 0
        self.overcommitted = Counter[str]()
        """By node, the cards of which more is allocated than exists."""
        self.fragmented = Counter[str]()
        """Pods that wait only for fragmentation, by the model of cards; every model is in it."""
        self.free: defaultdict[tuple[str, ...], Counter[str]] = defaultdict(Counter)
        """By mode and type how many cards of each node are wholly free."""
        self.amounts: dict[tuple[str, ...], list[float]] = {}
        """By mode and type the sums of :data:`AMOUNTS`."""
        self.held: defaultdict[tuple[str, str, str, str], list[float]] = defaultdict(lambda: [0.0, 0.0])
        """Cards and memory (bytes) that pods hold, by namespace, kind of owner, queue and model."""
        self.queues = set[str]()
        self.drivers: list[api.DriverDevices] = []
        self.device_classes = set[str]()

    def add(self, snapshot: Snapshot) -> None:
        """Count the snapshot of a part."""
        self.nodes.update(map(node_state, snapshot.nodes))
        self.claims.update(claim.state for claim in snapshot.claims)
        opened = (claim.decided_at for claim in snapshot.claims if claim.state in ("open", "withdrawing"))
        self.oldest_open = sorted([*self.oldest_open, *opened])[:1]
        for queue, created in snapshot.oldest_pending.items():
            self.oldest_pending[queue] = min(created, self.oldest_pending.get(queue, created))
        self.device_problems.update(snapshot.device_problems)
        self.unschedulable.update(snapshot.unschedulable)
        self.resource_claims.update(snapshot.resource_claims)
        self.unconfirmed += snapshot.unconfirmed
        self.binding_volumes += snapshot.binding_volumes
        self.going += snapshot.going
        self.queues.update(snapshot.queues)
        self.drivers += snapshot.drivers
        self.device_classes.update(snapshot.device_classes)
        self._add_pods(snapshot.pods)
        self._add_cards(snapshot)

    def _add_pods(self, pods: Sequence[Pod]) -> None:
        self.pods.update(pod.state for pod in pods)
        self.queue_pods.update((pod.queue, pod.state) for pod in pods if pod.state != OTHER)
        self.pending.update(pod.group for pod in pods if pod.group and pod.state == "Pending")
        # A pod without a PodGroup has a group of its own.
        of_jobs = [pod for pod in pods if "/" in pod.group and pod.group != f"pod/{pod.uid}"]
        self.jobs.update(pod.group for pod in of_jobs)
        self._waiting.update(pod.group for pod in of_jobs if pod.state in ("Pending", "Gated"))
        for pod in pods:
            for card in pod.cards:
                amounts = self.held[pod.namespace, _owner_kind(pod), pod.queue, card.type or "unknown"]
                amounts[0] += card.part
                amounts[1] += card.memory * MIB

    def _add_cards(self, snapshot: Snapshot) -> None:
        self.overcommitted.update(card.node for card in snapshot.registered if overcommitted(card))
        self.fragmented.update(dict.fromkeys((card.type or "unknown" for card in snapshot.devices), 0))
        self.fragmented.update(count_by_model(snapshot.pods))
        keyed = (((card.mode, card.type), card) for card in snapshot.devices)
        for key, free in whole_free(keyed, closed_nodes(snapshot.nodes)).items():
            self.free[key].update(free)
        for names, amounts in sums(("mode", "type"), snapshot.devices).items():
            known = self.amounts.get(names)
            self.amounts[names] = [*map(sum, zip(known, amounts, strict=True))] if known else amounts

    def gangs_pending(self, groups: Iterable[PodGroupFact]) -> int:
        """Return how many gangs have pending pods, and fewer that are claimed, bound or ended than their minMember."""
        return sum(
            (waiting := self._waiting[group.key]) > 0 and self.jobs[group.key] - waiting < group.min_member
            for group in groups
        )


def sums(names: tuple[str, ...], cards: Iterable[Device]) -> dict[tuple[str, ...], list[float]]:
    """Return the sums of all cards with equal values of ``names``, which are fields of a card."""
    groups: dict[tuple[str, ...], list[Device]] = {}
    for card in cards:
        groups.setdefault(tuple([getattr(card, name) for name in names]), []).append(card)
    return {key: [sum(map(amount, group)) for _, _, amount in AMOUNTS] for key, group in groups.items()}


def _owner_kind(pod: Pod) -> str:
    kind = pod.owner.partition("/")[0] or "Pod"
    return kind if len(kind) <= _LONGEST_KIND else OTHER_KIND
