"""What a device family is: one module, one object with these members, listed in :mod:`deviceshare.families`.

A family knows its request in a pod, its cards on a node, which cards a container may have, how good a choice is, and
what its device plugin wants to read on the pod. Everything is asked for many nodes at once: rows of a
:class:`~deviceshare.state.CardView` are nodes, columns are cards.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from deviceshare.conf import SchedulerConf
from deviceshare.families.device_plugin import DevicePlugin
from deviceshare.families.hardware import Hardware
from deviceshare.kernels import CardSelector
from deviceshare.model import Card, Claim, ContainerGrant, DeviceGrant, FormatError, Labels, PodRequest, Resources
from deviceshare.state import CardShare, CardView, Codes, Counted

MOST_CARDS = 128
"""More cards than any node has: a larger number is a mistake, and is refused before room is made for the answer."""


class NodeView(Protocol):
    """What a family sees of a Kubernetes Node when it looks for its cards."""

    @property
    def name(self) -> str:
        """``metadata.name``."""
        ...

    @property
    def annotations(self) -> Mapping[str, str]:
        """``metadata.annotations``."""
        ...

    @property
    def labels(self) -> Mapping[str, str]:
        """``metadata.labels``."""
        ...

    @property
    def capacity(self) -> Resources:
        """``status.capacity``, quantities parsed."""
        ...

    @property
    def allocatable(self) -> Resources:
        """``status.allocatable``, quantities parsed."""
        ...

    def devices(self) -> Mapping[str, str] | None:
        """Return what ConfigMaps say of the node's devices (:mod:`deviceshare.objects.device_info`), None for nothing.

        A node of which this is asked is looked at again when they say something else.
        """
        ...


class CardDemand(msgspec.Struct, frozen=True):
    """``count`` distinct cards, with ``memory`` MiB (0: all that a card has) and ``cores`` percent on each.

    ``container``, ``position`` and ``stage`` say for whom, where the cards are for one container
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
    """One container's part of cards that a pod is given as a whole: ``amount`` MiB or cards.

    ``position`` and ``stage`` as in :class:`~deviceshare.model.ContainerGrant`.
    """

    container: str
    position: int
    amount: int
    stage: str = ""


class CardNames(NamedTuple):
    """The extended resources by which cards of one kind are asked, '' for an amount that has no name.

    ``whole``: the number is one of whole cards, not of shares.
    """

    number: str = ""
    memory: str = ""
    cores: str = ""
    whole: bool = False


class Demand(msgspec.Struct, frozen=True):
    """What a pod asks of one family, and the wishes that go with it (mode, types, …) as the family reads them.

    ``cards`` are answered one after the other, each seeing what the ones before took; those of init containers come
    last, and see only what the pod took not yet. A family that reads other wishes has its own kind of demand.
    """

    family: str
    cards: tuple[CardDemand, ...]
    shares: tuple[ContainerShare, ...] = ()
    mode: str = ""
    use_types: tuple[str, ...] = ()
    nouse_types: tuple[str, ...] = ()
    use_ids: tuple[str, ...] = ()
    use_indexes: tuple[int, ...] = ()
    nouse_ids: tuple[str, ...] = ()
    """Cards that the pod excludes, by id or by index."""
    apart_group: str = ""
    """The PodGroup of which no other pod may be on the pod's cards; '' for none."""
    apart_rules: tuple[Labels, ...] = ()
    """Rules of exclusion that the pod matches: no other pod that matches one of them may be on its cards."""


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
    """The answer of a family to one demand for cards, over R nodes.

    ``fits`` bool[R]; ``columns`` int64[R, count]: the cards chosen, in the order in which they are written
    (meaningless where it does not fit); ``score`` float64[R]: how good the choice is under the policy, 0 where it
    does not fit, or float64[R, n]: its terms, which are added from the first to the last. ``details`` int64[R, count]
    is what the family needs beside to name the device (an instance, a template), ``waste`` float64[R] the MiB that are
    given and not asked; None: nothing of the kind.
    """

    fits: NDArray[np.bool_]
    columns: NDArray[np.int64]
    score: NDArray[np.float64]
    details: NDArray[np.int64] | None = None
    waste: NDArray[np.float64] | None = None


class Places(msgspec.Struct):
    """The answer of a family to a whole demand, over R nodes.

    ``columns`` and ``details`` have one array int64[R, count] for each of ``demand.cards``. ``rank`` float64[R] orders
    the nodes for a family that prefers one node to all others (:attr:`Family.best_node_score`).
    """

    fits: NDArray[np.bool_]
    columns: list[NDArray[np.int64]]
    details: list[NDArray[np.int64]]
    score: NDArray[np.float64]
    waste: NDArray[np.float64]
    rank: NDArray[np.float64] | None = None


class Pick(NamedTuple):
    """One chosen device of one node: the card and the family's detail."""

    card: Card
    detail: int


class Check(msgspec.Struct, frozen=True):
    """One check that keeps a demand from nodes: its code (HAMi's names where they mean the same) and how many cards
    of each node fail it.

    ``nodes`` bool[R]: where it counts as a reason; ``failed`` int64[R]: how many cards, ``cards`` bool[R, D]: which.
    ``resource``, ``asked``, ``free`` (int64[R]: the most that one card of the node, or the node, still has) and
    ``unit`` give the numbers where the check is about an amount.
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


class HeldInPart(FormatError):
    """Some devices in a pod's annotations cannot be understood; ``grants`` are held all the same.

    They name the card at least, so that nothing there is given that may belong to the pod.
    """

    def __init__(self, error: FormatError, grants: tuple[ContainerGrant, ...]) -> None:
        problem = error.problem
        super().__init__(problem.subject, problem.field, problem.value, problem.expected)
        self.grants = grants


class Family(Protocol):
    """One way of cutting cards. Implementations hold no state."""

    name: str
    """As in the documents: ``hami-core``, ``gpu-share``, …"""
    flag: str
    """The argument of the plugin ``deviceshare`` that turns it on."""
    answers: str
    """Families with the same word here answer the same request in different ways: each node gives the best one."""
    hardware: Hardware
    """Whose cards it cuts. Where two families register some on one node, these are the same, and nobody gets them."""
    modes: frozenset[str]
    """The modes of the cards that it cuts."""
    state: tuple[str, ...]
    """Names of what it counts of a card beside memory, cores and slots; with any, :meth:`count` is asked."""
    best_node_score: float
    """What the one node with the best rank scores beside; 0 where nodes are scored by themselves."""
    pod_annotations: frozenset[str]
    """Annotations of a pod that are wishes to this family; a ``*`` in one stands for any text."""
    pod_labels: frozenset[str]
    """Labels of a pod that are wishes to this family."""
    plugin: DevicePlugin
    """The device plugin that serves the pods, as far as the binder has to wait for it."""

    def node_cards(self, node: NodeView) -> tuple[Card, ...]:
        """Return the node's cards of this family, () where it has none.

        Raises :class:`~deviceshare.model.FormatError` where they are registered in a form that cannot be read.
        """
        ...

    def resources(self, conf: SchedulerConf) -> frozenset[str]:
        """Return the names of the extended resources by which pods ask this family."""
        ...

    def card_names(self, of: Demand | Card, conf: SchedulerConf) -> CardNames:
        """Return by which names what is asked, or a card, counts in queues: a demand or card of this family."""
        ...

    def demand(self, ask: PodRequest, conf: SchedulerConf) -> Demand | None:
        """Return what the pod asks of this family, or None.

        Families that answer the same request ask the same numbers of cards. Raises
        :class:`~deviceshare.model.RequestError` for what cannot be meant.
        """
        ...

    def place(self, demand: Demand, view: CardView, conf: SchedulerConf) -> Places:
        """Choose the cards for a demand on every node of the view at once, and charge them there (it is a copy)."""
        ...

    def selector(self, demand: Demand, codes: Codes, conf: SchedulerConf) -> CardSelector | None:
        """Return the kernel that answers a demand straight from the table as :meth:`place` does, or None.

        Only a demand of one container that asks nothing of cards beside what stands in the table can have one, and only
        where there are cards of the family's modes. It is asked anew when modes or types of cards come or go. With a
        ``likeness`` all demands for which that is the same share what is known of the nodes.
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

    def checks(self, demand: Demand, view: CardView, conf: SchedulerConf) -> list[Check]:
        """Return every check that cards of the view fail, for nodes where the demand does not fit."""
        ...

    def count(self, card: Card, pods: Sequence[Sequence[CardShare]], conf: SchedulerConf) -> Counted:
        """Return what is taken of a card and its state, where each of these pods holds these shares of it.

        Never asked where ``state`` is empty.
        """
        ...

    def annotations(
        self, claim: Claim, node: str, containers: Sequence[str], now: float, init_containers: Sequence[str] = ()
    ) -> dict[str, str]:
        """Return what the device plugin reads on the pod, for the grants of this family in the claim.

        ``containers`` are the names in ``spec.containers``, ``init_containers`` those in ``spec.initContainers``,
        ``now`` is the moment of binding in unix seconds.
        """
        ...

    def held(self, annotations: Mapping[str, str], ask: PodRequest, pod: str) -> tuple[ContainerGrant, ...]:
        """Return what the annotations of a bound pod say it holds, the inverse of :meth:`annotations`.

        ``ask`` is what the pod asks, ``pod`` its ``namespace/name`` for messages. What an init container asks beyond
        all others is held as well. Raises :class:`~deviceshare.model.FormatError`; :class:`HeldInPart` where some of
        it counts all the same.
        """
        ...

    def at_most(self, device: DeviceGrant, asked: CardDemand, card: Card | None) -> DeviceGrant:
        """Return a device that :meth:`held` found with no more than was asked of each card.

        ``card`` is the one that it names, None where its size is not known. Never asked where no demand for cards
        names its container: then :meth:`held` goes by the ask itself.
        """
        ...

    def environment(self, grant: ContainerGrant, cards: Sequence[Card]) -> dict[str, str]:
        """Return the environment that the device plugin injects, as far as the scheduler decides it."""
        ...

    def caveats(self, grants: Sequence[ContainerGrant]) -> tuple[str, ...]:
        """Return what a user should know of these grants to one pod: what the device plugin will not do with them."""
        ...
