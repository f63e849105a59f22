"""The answer to "why there" and "why not": codes with numbers, and the one line that users of kube-scheduler know.

Reasons are counted over nodes, so their text holds no node names; the numbers say what would have been enough.
"""

from collections.abc import Iterable

import msgspec

from deviceshare.model.claims import ContainerGrant

PLACED = "placed"
PENDING = "pending"
ADMITTED = "admitted"
REJECTED = "rejected"
"""Of a PodGroup: it was let into its queue, or why not."""


class Refusal(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One reason that keeps a pod from some nodes.

    ``code`` is stable and for machines (HAMi's names where they mean the same), ``text`` is for people. ``nodes`` is 0
    where the pod itself is the reason, whatever the node. Where an amount is missing, ``asked`` and ``free`` are in
    ``unit``, and ``free`` is the most that any of these nodes (or one card of them) still has; nodes that do not admit
    the pod by their state or labels count only where no other lacks the amount.
    """

    code: str
    text: str
    nodes: int
    resource: str = ""
    asked: int = 0
    free: int = 0
    unit: str = ""
    nearest: str = ""
    """The node that comes closest."""
    cards: int = 0
    """How many cards fail this check, over these nodes; 0 where it is not about cards."""

    @property
    def line(self) -> str:
        """``<nodes> <text>`` with the numbers."""
        text = f"{self.nodes} {self.text}" if self.nodes else self.text
        if not self.asked:
            return text
        asked, free = shown(self.asked, self.unit), shown(self.free, self.unit)
        missing = shown(max(0, self.asked - self.free), self.unit)
        return f"{text} (asked {asked}, at most {free} free, {missing} missing)"


class NearCard(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One card of a node that comes close: the codes of the checks that it fails, and what is left of it.

    ``memory`` MiB, ``cores`` percent or AI cores, ``slots`` shares.
    """

    id: str
    index: int
    codes: tuple[str, ...] = ()
    memory: int = 0
    cores: int = 0
    slots: int = 0


class NearNode(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A node that comes close to taking a pod: every check that fails there, and its cards where cards are asked."""

    node: str
    refusals: tuple[Refusal, ...] = ()
    cards: tuple[NearCard, ...] = ()


class Explanation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The last decision about one pod; the message under its subject in EXPLAIN."""

    v: int = 1
    uid: str
    namespace: str
    name: str
    at: float
    decision: str
    """Of a pod ``placed`` or ``pending``, of a PodGroup ``admitted`` or ``rejected``."""
    node: str = ""
    message: str = ""
    """The one line: what becomes the condition ``PodScheduled`` and the Event."""
    nodes: int = 0
    """How many nodes there were."""
    feasible: int = 0
    """On how many of them the pod fits."""
    refusals: tuple[Refusal, ...] = ()
    grants: tuple[ContainerGrant, ...] = ()
    environment: dict[str, dict[str, str]] = {}
    """What the device plugins will inject, by container."""
    why: tuple[str, ...] = ()
    """Why there: policy, score, the runner-up."""
    gang: str = ""
    """What the gang still needs, where the pod is one of several."""
    gang_reason: str = ""
    """In one word, as Volcano says it of a PodGroup: ``NotEnoughTasks``, …; '' for ``NotEnoughResources``."""
    gang_ready: bool = False
    """Whether the pod's gang has its minimum without it, so that its PodGroup is not unschedulable."""
    queue: str = ""
    group: str = ""
    decided_by: str = ""
    caveats: tuple[str, ...] = ()
    """What the device plugin will not do as the pod may expect, and wishes that were not read word for word."""
    closest: tuple[NearNode, ...] = ()
    """Of a pod that waits: the nodes that lack least, the nearest first."""


def shown(amount: int, unit: str) -> str:
    """Return an amount as users write it: ``1500m`` CPUs, ``64Gi`` bytes, ``3000 MiB``, ``50%``, ``4``."""
    match unit:
        case "millicores":
            return f"{amount}m" if amount % 1000 else str(amount // 1000)
        case "bytes":
            for suffix, size in _BINARY:
                if amount >= size:
                    return f"{amount / size:.1f}".removesuffix(".0") + suffix
            return str(amount)
        case "percent":
            return f"{amount}%"
        case _:
            return f"{amount} {unit}" if unit else str(amount)


_BINARY = (("Ti", 2**40), ("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10))


def unavailable(nodes: int, refusals: Iterable[Refusal]) -> str:
    """Return ``0/<nodes> nodes are unavailable: <count> <reason>, ….`` with the most frequent reason first."""
    parts = [refusal.line for refusal in sorted(refusals, key=lambda refusal: (-refusal.nodes, refusal.text))]
    if not nodes:
        return "0/0 nodes are unavailable: the cluster has no nodes."
    return f"0/{nodes} nodes are unavailable: {', '.join(parts)}." if parts else f"0/{nodes} nodes are unavailable."
