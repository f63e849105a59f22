"""Explanations of decisions: reason codes with numbers, and the message line known from kube-scheduler.

Reasons are counted over nodes, so their text contains no node names.
"""

from collections import Counter
from collections.abc import Iterable

import msgspec

from deviceshare.model.bounded import Real
from deviceshare.model.claims import ContainerGrant

PLACED = "placed"
PENDING = "pending"
ADMITTED = "admitted"
REJECTED = "rejected"
"""Decisions about PodGroups: admission to their queue."""


_NUMBER_OF_CARDS = "NodeInsufficientDevice"


class Refusal(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One reason why a pod does not fit some nodes.

    ``code`` is stable and machine-readable (HAMi's name for the same reason), ``text`` is for users. ``nodes`` is 0 if
    the reason is independent of nodes. For missing amounts, ``asked`` and ``free`` are in ``unit``; ``free`` is the
    largest free amount of any of these nodes (or of one card). Nodes that reject the pod by state or labels count for
    ``free`` only if no other node lacks the amount.

    For a check of single cards ``needed`` is the number of cards that a container needs on one node; an amount is then
    that of each of them. In :attr:`Explanation.first_failing` such a check has further numbers of cards: of those of
    the node ``nearest`` that pass the checks before it (``considered``), ``left`` pass it as well, and ``excluded``
    cards of all these nodes fail a check before it.
    """

    code: str
    text: str
    nodes: int
    resource: str = ""
    asked: int = 0
    free: int = 0
    unit: str = ""
    nearest: str = ""
    """The node that lacks least."""
    free_by_model: tuple[tuple[str, int], ...] = ()
    """In :attr:`Explanation.first_failing`, of cards: what those that pass the checks before have free, by model."""
    cards: int = 0
    """How many cards of these nodes fail the check; 0 if it is not about cards."""
    needed: int = 0
    left: int = 0
    considered: int = 0
    excluded: int = 0
    largest: int = 0
    """Of an amount of which no card that the pod may use has so much: what the largest of them has."""
    used: int | None = None
    """Of a queue's limit: what the queue's pods have of it. None for other checks, and for a limit of what groups are
    promised."""

    @property
    def asked_in_sum(self) -> int:
        """The amount that a container needs on one node."""
        return self.asked * max(self.needed, 1)

    @property
    def line(self) -> str:
        """``<nodes> <text>`` with the amounts."""
        text = f"{self.nodes} {self.text}" if self.nodes else self.text
        numbers = self._numbers()
        return f"{text} ({numbers})" if numbers else text

    def _numbers(self) -> str:
        parts = []
        if self.needed > 1:
            of_each = f" with {shown(self.asked, self.unit)} each" if self.asked else ""
            parts.append(f"{self.needed} cards{of_each} are needed")
        if self.needed > 1 and self.considered:
            where = "" if self.nodes == 1 else "on the closest node "
            verb = ("has that" if self.left == 1 else "have that") if self.asked else "left"
            parts.append(f"{where}{self.left} of {self.considered} {verb}")
        if self.asked:
            missing = shown(max(0, self.asked - self.free), self.unit)
            # A node may have fewer cards than are needed: the amount is then that of those that it has.
            each = f" on each of {self.needed}" if self.considered >= self.needed > 1 else ""
            # The check of the number of cards counts those in use as well, unless it is about the cards in use.
            what = "usable" if self.code == _NUMBER_OF_CARDS and not self.cards else "free"
            free = f"at most {shown(self.free, self.unit)} {what}{each}, {missing} missing"
            if self.largest:
                free = f"the largest card that the pod may use has {shown(self.largest, self.unit)}"
            parts.append(free if self.needed > 1 else f"asked {shown(self.asked, self.unit)}, {free}")
        if self.excluded and parts:
            cards = "1 other card fails" if self.excluded == 1 else f"{self.excluded} other cards fail"
            parts.append(f"{cards} earlier checks")
        return "; ".join(parts)


class NearCard(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One card of a near node: the codes of its failed checks, and its free capacity.

    ``memory`` in MiB, ``cores`` in percent or AI cores, ``slots`` in pods.
    """

    id: str
    index: int
    codes: tuple[str, ...] = ()
    memory: int = 0
    cores: int = 0
    slots: int = 0


class NearNode(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A node that almost fits a pod: its failed checks, and its cards if the pod requests cards."""

    node: str
    refusals: tuple[Refusal, ...] = ()
    cards: tuple[NearCard, ...] = ()


class Explanation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The last decision about one pod; the message under its subject in EXPLAIN."""

    v: int = 1
    uid: str
    namespace: str
    name: str
    at: Real
    decision: str
    """For a pod ``placed`` or ``pending``, for a PodGroup ``admitted`` or ``rejected``."""
    node: str = ""
    message: str = ""
    """The message of the condition ``PodScheduled`` and of the Event."""
    nodes: int = 0
    """The number of nodes."""
    feasible: int = 0
    """The number of nodes that fit the pod."""
    refusals: tuple[Refusal, ...] = ()
    """Every check that nodes fail; a node counts under each of its failing checks."""
    first_failing: tuple[Refusal, ...] = ()
    """The first failing check of each node, in kube-scheduler's order: each node counts once, and the nodes that passed
    most checks come first."""
    grants: tuple[ContainerGrant, ...] = ()
    environment: dict[str, dict[str, str]] = {}
    """Environment variables that the device plugins will inject, by container."""
    admission: str = ""
    """The terms on which a PodGroup was admitted (:func:`deviceshare.model.admission_terms`)."""
    returned: str = ""
    """That an admitted PodGroup gave back what its queue promised it, and why; '' if it did not."""
    why: tuple[str, ...] = ()
    """Why this node: policy, score, the second best node."""
    refused: bool = False
    """Whether the request is invalid, so that no change of the cluster helps."""
    gang: str = ""
    """What the pod's gang still needs."""
    gang_reason: str = ""
    """Volcano's reason for the PodGroup: ``NotEnoughTasks``, …; '' for ``NotEnoughResources``."""
    gang_ready: bool = False
    """Whether the pod's gang has its minimum without the pod, so that its PodGroup is not unschedulable."""
    queue: str = ""
    group: str = ""
    decided_by: str = ""
    caveats: tuple[str, ...] = ()
    """Limitations of the device plugin that affect the pod, and annotations that were interpreted leniently."""
    closest: tuple[NearNode, ...] = ()
    """For a waiting pod: the nodes that lack least, nearest first."""
    kept_for: tuple[str, ...] = ()
    """If nodes are kept free for jobs that waited too long: their PodGroups or pods. Other users may not see them: they
    are not in the message, which is that of the pod's condition."""

    @property
    def enough_in_sum(self) -> tuple[tuple[str, Refusal], ...]:
        """The models of which the cards of all nodes together have enough free, with the refusals about these."""
        sums: Counter[tuple[str, int, str]] = Counter()
        found = []
        for refusal in self.first_failing:
            for model, amount in refusal.free_by_model:
                key = (model, refusal.asked_in_sum, refusal.unit)
                sums[key] += amount
                if sums[key] >= refusal.asked_in_sum > 0:
                    found.append((model, refusal))
        return tuple(found)


def unit_of(resource: str) -> str:
    """Return the unit of a node resource for :func:`shown`, '' for a plain count."""
    if resource.startswith("hugepages-"):
        return "bytes"
    return {"cpu": "millicores", "memory": "bytes", "ephemeral-storage": "bytes"}.get(resource, "")


def shown(amount: int, unit: str) -> str:
    """Format an amount for users: ``1500m`` CPUs, ``64Gi`` bytes, ``3000 MiB``, ``50%``, ``4``."""
    match unit:
        case "millicores":
            return f"{amount}m" if amount % 1000 else str(amount // 1000)
        case "bytes":
            for suffix, size in _BINARY:
                # Sums stay correct: of 2Ti with 1031.5Gi free, 1016.5Gi are missing.
                if amount >= size and (amount >= 10 * size or not amount % size):
                    return f"{amount / size:.1f}".removesuffix(".0") + suffix
            return str(amount)
        case "percent":
            return f"{amount}%"
        case _:
            return f"{amount} {unit.removesuffix('s') if amount == 1 else unit}" if unit else str(amount)


_BINARY = (("Ti", 2**40), ("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10))


def unavailable(nodes: int, refusals: Iterable[Refusal]) -> str:
    """Return ``0/<nodes> nodes are unavailable: <count> <reason>, ….``, the reasons in this order."""
    parts = [refusal.line for refusal in refusals]
    if not nodes:
        return "0/0 nodes are unavailable: the cluster has no nodes."
    return f"0/{nodes} nodes are unavailable: {', '.join(parts)}." if parts else f"0/{nodes} nodes are unavailable."
