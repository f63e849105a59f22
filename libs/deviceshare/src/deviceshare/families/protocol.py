"""The protocol of a device family: one module, one object with these members, listed in :mod:`deviceshare.families`.

A family reads its request in a pod and its cards on a node, picks and scores cards for a container, and writes the
annotations that its device plugin reads. Methods evaluate many nodes at once: rows of a
:class:`~deviceshare.state.CardView` are nodes, columns are cards.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from deviceshare.conf import SchedulerConf
from deviceshare.families.device_plugin import DevicePlugin
from deviceshare.families.hardware import Hardware
from deviceshare.families.hooks import Hooks
from deviceshare.kernels import CardSelector
from deviceshare.model import Card, Claim, ContainerGrant, DeviceGrant, FormatError, Labels, PodRequest, Resources
from deviceshare.state import CardShare, CardView, Codes, Counted, Usage

MAX_CARDS = 128
"""The most cards of one request, more than any node has. A larger number is refused before arrays are allocated."""


class NodeView(msgspec.Struct, frozen=True):
    """What a family reads of a Kubernetes Node to find its cards; quantities are parsed."""

    name: str
    annotations: Mapping[str, str]
    labels: Mapping[str, str]
    capacity: Resources
    allocatable: Resources
    device_info: Callable[[str], Mapping[str, str] | None]
    """Returns the devices of a node from ConfigMaps by the name of the node."""

    def devices(self) -> Mapping[str, str] | None:
        """Return the node's entries in device ConfigMaps (:mod:`deviceshare.objects.device_info`), None for none.

        A node for which this was called is decoded again when its entries change.
        """
        return self.device_info(self.name)


class CardDemand(msgspec.Struct, frozen=True):
    """``count`` distinct cards, with ``memory`` MiB (0: all that a card has) and ``cores`` percent on each.

    ``container``, ``position`` and ``stage`` name the container, if the cards are for one container
    (:class:`~deviceshare.model.ContainerGrant`).
    """

    count: int
    memory: int
    cores: int
    memory_percentage: int = 0
    container: str = ""
    position: int = 0
    stage: str = ""


class ContainerShare(msgspec.Struct, frozen=True):
    """One container's part of cards that the pod requests as a whole: ``amount`` MiB, cards or AI cores.

    ``position`` and ``stage`` as in :class:`~deviceshare.model.ContainerGrant`.
    """

    container: str
    position: int
    amount: int
    stage: str = ""


class CardNames(NamedTuple):
    """The extended resources by which cards of one kind are requested, '' for an amount without a resource.

    ``whole``: ``number`` counts whole cards, not shares.
    """

    number: str = ""
    memory: str = ""
    cores: str = ""
    whole: bool = False


class Demand(msgspec.Struct, frozen=True):
    """What a pod requests of one family, with the restrictions in its annotations (mode, types, …).

    ``cards`` are placed one after the other, each sees what the ones before it took. Those of init containers come
    last, and see the cards as they were before the pod. A family with other restrictions has its own subclass.
    """

    family: str
    cards: tuple[CardDemand, ...]
    shares: tuple[ContainerShare, ...] = ()
    mode: str = ""
    use_types: tuple[str, ...] = ()
    nouse_types: tuple[str, ...] = ()
    type_parts: bool = False
    """Whether types that are whole words of no card's type match parts of words."""
    use_ids: tuple[str, ...] = ()
    use_indexes: tuple[int, ...] = ()
    nouse_ids: tuple[str, ...] = ()
    """Cards that the pod excludes, by id or index."""
    apart_group: str = ""
    """The PodGroup whose other pods may not share the pod's cards; '' for none."""
    apart_rules: tuple[Labels, ...] = ()
    """Exclusion rules that the pod matches: other pods that match one of them may not share its cards."""
    card_type: str = ""
    """The only type of cards (:attr:`deviceshare.model.Card.type`) that serves the demand; '' for any."""
    or_whole: bool = False
    """Whether nodes without cards in :attr:`Family.whole_modes` serve the demand without cards of the table: kubelet
    chooses whole ones."""


class ExpectedDemand(msgspec.Struct, frozen=True):
    """What the pods in the cluster request at present, waiting or not.

    ``cards`` are a family's name, the MiB on each card, and the number of cards of all pods that request so many MiB.
    Requests for whole cards or a percentage of a card are not among them.
    """

    cards: tuple[tuple[str, int, int], ...] = ()

    def of(self, family: str) -> tuple[tuple[int, int], ...]:
        """Return MiB and number of the cards that are requested of one family."""
        return tuple((memory, count) for name, memory, count in self.cards if name == family)


class Picks(msgspec.Struct):
    """The cards that a family picks for one :class:`CardDemand`, over R nodes.

    ``fits`` bool[R]: whether the node is feasible. ``columns`` int64[R, count]: the picked cards, in the order in which
    they are written; undefined where infeasible. ``score`` float64[R]: the score under the policy, higher is better, 0
    where infeasible; or float64[R, n]: its terms, added from the first to the last. ``details`` int64[R, count]:
    what else identifies the device (an instance, a template), ``waste`` float64[R]: the MiB that are given beyond the
    request; None: none.
    """

    fits: NDArray[np.bool_]
    columns: NDArray[np.int64]
    score: NDArray[np.float64]
    details: NDArray[np.int64] | None = None
    waste: NDArray[np.float64] | None = None


class Places(msgspec.Struct):
    """The cards that a family picks for a whole demand, over R nodes.

    ``columns`` and ``details`` have one array int64[R, count] for each of ``demand.cards``. ``score`` float64[R] is the
    sum over the containers. ``rank`` float64[R], higher is better, orders the nodes for a family that prefers one node
    to all others (:attr:`Family.best_node_score`).
    """

    fits: NDArray[np.bool_]
    columns: list[NDArray[np.int64]]
    details: list[NDArray[np.int64]]
    score: NDArray[np.float64]
    waste: NDArray[np.float64]
    rank: NDArray[np.float64] | None = None


class Pick(msgspec.Struct, frozen=True, gc=False):
    """One picked device of one node: the card and the family's detail."""

    card: Card
    detail: int


class FirstFailing(msgspec.Struct, frozen=True):
    """The nodes whose first failing check a check is, in the order of the checks of one container.

    Each check excludes cards; the first one that leaves fewer cards than the container needs is the node's. ``nodes``
    bool[R]: these nodes. int64[R] each: ``left``: cards that pass the check, ``considered``: cards that passed all
    checks before it, ``on_node``: the cards of the family; ``free``: the most that each of the needed cards has free,
    ``free_cards`` (int64[R, D]): what each card that passed the checks before it has free.
    """

    nodes: NDArray[np.bool_]
    left: NDArray[np.int64]
    considered: NDArray[np.int64]
    on_node: NDArray[np.int64]
    free: NDArray[np.int64] | None = None
    free_cards: NDArray[np.int64] | None = None


class Check(msgspec.Struct, frozen=True):
    """One check that nodes fail: a code (HAMi's name for the same check) and a text.

    ``nodes`` bool[R]: the nodes for which it is a reason; ``failed`` int64[R]: the number of cards that fail it,
    ``cards`` bool[R, D]: these cards. A check about an amount has ``resource``, ``asked``, ``free`` (int64[R]: the most
    that one card of the node, or the node, has free) and ``unit``; if the amount is one of each card, ``free_cards``
    (int64[R, D]), and ``free`` is the most that each of ``needed`` cards has free.
    """

    code: str
    text: str
    nodes: NDArray[np.bool_]
    failed: NDArray[np.int64]
    resource: str = ""
    asked: int = 0
    free: NDArray[np.int64] | None = None
    unit: str = ""
    cards: NDArray[np.bool_] | None = None
    free_cards: NDArray[np.int64] | None = None
    needed: int = 0
    """The number of cards that the container needs; 0 if the check is not about single cards."""
    first: FirstFailing | None = None


class CardCount(NamedTuple):
    """What is shown of a card: its usage, and the largest share that a pod could get of it.

    ``largest_free`` is in MiB, or in cores if the card has no memory.
    """

    usage: Usage
    largest_free: int


class HeldInPart(FormatError):
    """Some devices in a pod's annotations cannot be read; ``grants`` are held all the same.

    They name the card at least, so that nothing is allocated there that the pod may have.
    """

    def __init__(self, error: FormatError, grants: tuple[ContainerGrant, ...]) -> None:
        problem = error.problem
        super().__init__(problem.subject, problem.field, problem.value, problem.expected)
        self.grants = grants


class Codec(Protocol):
    """What annotations and objects mean: the cards of a node, the request of a pod, its grants."""

    name: str
    """The name, as in the documentation: ``hami-core``, ``gpu-share``, …"""
    hardware: Hardware
    """The hardware of its cards. Cards of the same hardware that two device plugins register on a node are not used."""
    modes: frozenset[str]
    """The modes of its cards (:attr:`deviceshare.model.Card.mode`)."""
    whole_modes: frozenset[str]
    """The modes of cards that a device plugin registers, shared, under the resource of whole ones
    (:meth:`Hardware.offers_whole`); empty for a family with a resource of its own. If such a registration cannot be
    read, the node does not offer the resource."""
    pod_annotations: frozenset[str]
    """Annotations of a pod that this family reads; a ``*`` stands for any text."""
    held_annotations: frozenset[str]
    """Annotations of a bound pod that :meth:`held` reads; a ``*`` stands for any text. It is not called for pods that
    have none of them."""
    pod_labels: frozenset[str]
    """Labels of a pod that this family reads."""
    plugin: DevicePlugin
    """The device plugin that serves the pods, as far as the binder waits for it."""

    def node_cards(self, node: NodeView) -> tuple[Card, ...]:
        """Return the node's cards of this family, () where it has none.

        Raises :class:`~deviceshare.model.FormatError` where the registration cannot be read.
        """
        ...

    def resources(self, conf: SchedulerConf) -> frozenset[str]:
        """Return the names of the extended resources by which pods request cards of this family."""
        ...

    def card_names(self, of: Demand | Card, conf: SchedulerConf) -> CardNames:
        """Return the resources by which a demand, or a card, of this family counts in queues."""
        ...

    def demand(self, ask: PodRequest, conf: SchedulerConf) -> Demand | None:
        """Return what the pod requests of this family, or None.

        Families that answer the same request return the same numbers of cards. Raises
        :class:`~deviceshare.model.RequestError` for an invalid request.
        """
        ...

    def annotations(
        self, claim: Claim, node: str, containers: Sequence[str], now: float, init_containers: Sequence[str] = ()
    ) -> dict[str, str]:
        """Return the annotations that the device plugin reads on the pod, for the claim's grants of this family.

        ``containers`` are the names in ``spec.containers``, ``init_containers`` those in ``spec.initContainers``,
        ``now`` is the time of binding in unix seconds.
        """
        ...

    def held(self, annotations: Mapping[str, str], ask: PodRequest, pod: str) -> tuple[ContainerGrant, ...]:
        """Return what a bound pod holds by its annotations, the inverse of :meth:`annotations`.

        ``ask`` is the pod's request, ``pod`` its ``namespace/name`` for messages. What an init container requests
        beyond the others is held as well. Raises :class:`~deviceshare.model.FormatError`; :class:`HeldInPart` where
        some of the devices count all the same.
        """
        ...

    def at_most(self, device: DeviceGrant, asked: CardDemand, card: Card | None) -> DeviceGrant:
        """Return a device that :meth:`held` found, clamped to the request for each card.

        ``card`` is the device's card, None where its size is not known. Never called where no :class:`CardDemand` names
        its container: then :meth:`held` goes by the request itself.
        """
        ...

    def environment(self, grant: ContainerGrant, cards: Sequence[Card]) -> dict[str, str]:
        """Return the environment that the device plugin injects, as far as the scheduler determines it."""
        ...

    def caveats(self, grants: Sequence[ContainerGrant]) -> tuple[str, ...]:
        """Return what the device plugin will not do with these grants to one pod, as warnings for the user."""
        ...


class Placement(Protocol):
    """The cards that a demand gets: what fits on the arrays of the cards, and the score."""

    best_node_score: float
    """What the node with the best rank scores in addition; 0 where nodes are scored by themselves."""

    def place(self, demand: Demand, view: CardView, conf: SchedulerConf) -> Places:
        """Pick the cards for a demand on every node of the view, and charge them in the view, which is a copy."""
        ...

    def selector(self, demand: Demand, codes: Codes, conf: SchedulerConf) -> CardSelector | None:
        """Return the kernel that picks the same cards as :meth:`place` directly in the table.

        ``None``: fall back to the NumPy path, as for demands of several containers, or that restrict cards by what is
        not in the table. Only called where the cluster has cards of the family's modes, and again when modes or types
        of cards come or go. Demands whose selectors have the same ``equivalence_key`` share a ranking.
        """
        ...

    def grants(
        self, demand: Demand, chosen: Sequence[Sequence[Pick]], conf: SchedulerConf, expected: ExpectedDemand
    ) -> tuple[ContainerGrant, ...]:
        """Return the grants that give the containers the chosen devices, a sequence for each of ``demand.cards``.

        ``expected`` is what pods in the cluster request at present: a family that partitions cards may choose by it how
        it partitions a card that is not partitioned yet, as long as the containers get what was chosen.
        """
        ...

    def pick_of(
        self, demand: Demand, cards: CardDemand, device: DeviceGrant, card: Card, conf: SchedulerConf
    ) -> Pick | None:
        """Return the pick for which :meth:`grants` gives this device of a card, None if there is none for the demand.

        The amounts of the device need no check: the caller compares it with what :meth:`grants` returns.
        """
        ...

    def checks(self, demand: Demand, view: CardView, conf: SchedulerConf) -> list[Check]:
        """Return every check that cards of the view fail, for the nodes that are infeasible, and for these only."""
        ...


class Accounting(Protocol):
    """The usage of cards whose pods take other amounts than they request, such as instances."""

    state: tuple[str, ...]
    """Names of the values that it keeps for a card besides memory, cores and slots."""

    def count(self, card: Card, pods: Sequence[Sequence[CardShare]], conf: SchedulerConf) -> Counted:
        """Return usage and state of a card of which each of these pods holds these shares."""
        ...

    def add(self, card: Card, counted: Counted, shares: Sequence[CardShare], conf: SchedulerConf) -> Counted | None:
        """Return what :meth:`count` returns with one more pod, which holds these shares; None: count all pods again."""
        return None

    def shown(self, card: Card, counted: Counted, conf: SchedulerConf) -> CardCount:
        """Return what is shown of a card, by what :meth:`count` returned."""
        ...

    def conflict(self, card: Card, pods: Sequence[Sequence[CardShare]], conf: SchedulerConf) -> str:
        """Return what a card lacks to serve pods with these shares, apart from memory, cores and slots; '' for nothing.

        The last of the pods is the one that comes to the others.
        """
        return ""


class Family(Codec, Placement, Hooks, Protocol):
    """One way of sharing or partitioning cards. Implementations hold no state."""

    flag: str
    """The argument of the plugin ``deviceshare`` that turns it on."""
    answers: str
    """Families with the same word answer the same request in different ways: on each node the best answer counts."""
    accounting: Accounting | None
    """None: what pods take of a card adds up (:func:`~deviceshare.state.usage_of`)."""
