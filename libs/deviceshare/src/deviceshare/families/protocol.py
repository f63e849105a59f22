"""What a device family is: one module, one object with these members, listed in :mod:`deviceshare.families`.

A family knows its request in a pod, its cards on a node, which cards a container may have, how good a choice is, and
what its device plugin wants to read on the pod. Everything is asked for many nodes at once: rows of a
:class:`~deviceshare.cards.CardView` are nodes, columns are cards.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from deviceshare.cards import CardView
from deviceshare.claims import Claim, ContainerGrant
from deviceshare.conf.scheduler import SchedulerConf
from deviceshare.facts import Card, PodAsk, Resources


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


class CardDemand(msgspec.Struct, frozen=True):
    """``count`` distinct cards, with ``memory`` MiB (0: all that a card has) and ``cores`` percent on each.

    ``container`` and ``position`` say for whom, where the cards are for one container.
    """

    count: int
    memory: int
    cores: int
    memory_percentage: int = 0
    container: str = ""
    position: int = 0


class Share(msgspec.Struct, frozen=True):
    """One container's part of cards that a pod is given as a whole: ``amount`` MiB or cards."""

    container: str
    position: int
    amount: int


class Demand(msgspec.Struct, frozen=True):
    """What a pod asks of one family, and the wishes that go with it (mode, types, …) as the family reads them.

    ``cards`` are answered one after the other, each seeing what the ones before took.
    """

    family: str
    cards: tuple[CardDemand, ...]
    shares: tuple[Share, ...] = ()
    mode: str = ""
    use_types: tuple[str, ...] = ()
    nouse_types: tuple[str, ...] = ()
    use_ids: tuple[str, ...] = ()
    nouse_ids: tuple[str, ...] = ()


class Picks(msgspec.Struct):
    """The answer of a family to one demand for cards, over R nodes.

    ``fits`` bool[R]; ``columns`` int64[R, count]: the cards chosen, in the order in which they are written
    (meaningless where it does not fit); ``score`` float64[R]: how good the choice is under the policy, 0 where it
    does not fit.
    """

    fits: NDArray[np.bool_]
    columns: NDArray[np.int64]
    score: NDArray[np.float64]


class Check(msgspec.Struct, frozen=True):
    """One check that keeps a demand from nodes: its code (HAMi's names where they mean the same) and how many cards
    of each node fail it.

    ``nodes`` bool[R]: where it counts as a reason; ``failed`` int64[R] cards. ``resource``, ``asked``, ``free``
    (int64[R]: the most that one card of the node, or the node, still has) and ``unit`` give the numbers where the
    check is about an amount.
    """

    code: str
    text: str
    nodes: NDArray[np.bool_]
    failed: NDArray[np.int64]
    resource: str = ""
    asked: int = 0
    free: NDArray[np.int64] | None = None
    unit: str = ""


class Family(Protocol):
    """One way of cutting cards. Implementations hold no state."""

    name: str
    """As in the documents: ``hami-core``, ``gpu-share``, …"""
    flag: str
    """The argument of the plugin ``deviceshare`` that turns it on."""
    pod_annotations: frozenset[str]
    """Annotations of a pod that are wishes to this family."""
    pod_labels: frozenset[str]
    """Labels of a pod that are wishes to this family."""

    def node_cards(self, node: NodeView) -> tuple[Card, ...]:
        """Return the node's cards of this family, () where it has none.

        Raises :class:`~deviceshare.errors.FormatError` where they are registered in a form that cannot be read.
        """
        ...

    def resources(self, conf: SchedulerConf) -> frozenset[str]:
        """Return the names of the extended resources by which pods ask this family."""
        ...

    def demand(self, ask: PodAsk, conf: SchedulerConf) -> Demand | None:
        """Return what the pod asks of this family, or None.

        Raises :class:`~deviceshare.errors.RequestError` for what cannot be meant.
        """
        ...

    def pick(self, demand: Demand, cards: CardDemand, view: CardView, policy: str) -> Picks:
        """Choose the cards for one demand on every node of the view at once. Changes nothing."""
        ...

    def charge(self, cards: CardDemand, view: CardView, picks: Picks) -> None:
        """Charge the picked cards in the view (a copy), so that the pod's next demand sees them taken."""
        ...

    def grants(self, demand: Demand, chosen: Sequence[Sequence[Card]]) -> tuple[ContainerGrant, ...]:
        """Return the grants that give the chosen cards (a sequence for each of ``demand.cards``) to the containers."""
        ...

    def checks(self, demand: Demand, cards: CardDemand, view: CardView) -> list[Check]:
        """Return every check that cards of the view fail, for nodes where the demand does not fit."""
        ...

    def annotations(self, claim: Claim, node: str, containers: Sequence[str], now: float) -> dict[str, str]:
        """Return what the device plugin reads on the pod, for the grants of this family in the claim.

        ``containers`` are the names in ``spec.containers``, ``now`` is the moment of binding in unix seconds.
        """
        ...

    def held(self, annotations: Mapping[str, str], ask: PodAsk, pod: str) -> tuple[ContainerGrant, ...]:
        """Return what the annotations of a bound pod say it holds, the inverse of :meth:`annotations`.

        ``ask`` is what the pod asks, ``pod`` its ``namespace/name`` for messages. What an init container asks beyond
        all others is held as well. Raises :class:`~deviceshare.errors.FormatError`.
        """
        ...

    def environment(self, grant: ContainerGrant, cards: Sequence[Card]) -> dict[str, str]:
        """Return the environment that the device plugin injects, as far as the scheduler decides it."""
        ...

    def caveats(self, grants: Sequence[ContainerGrant]) -> tuple[str, ...]:
        """Return what a user should know of these grants to one pod: what the device plugin will not do with them."""
        ...
