"""Explanations of decisions: reasons with codes and amounts, and the message in the form of kube-scheduler.

Reasons are counted over nodes, so their text contains no node names; the amounts show how much was missing.
"""

from collections.abc import Iterable

import msgspec

from deviceshare.model.claims import ContainerGrant

PLACED = "placed"
PENDING = "pending"
ADMITTED = "admitted"
REJECTED = "rejected"
"""Decisions about a PodGroup: admitted to its queue or not."""


class Refusal(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One reason that rules out a pod on some nodes.

    ``code`` is stable and for programs (HAMi's code if there is an equivalent one), ``text`` is for users. ``nodes`` is
    0 if the reason is the pod itself on any node. If an amount is missing, ``asked`` and ``free`` are in ``unit``, and
    ``free`` is the most that any of these nodes (or one of their cards) has left; nodes that are infeasible by their
    state or labels count only if no other node lacks the amount.
    """

    code: str
    text: str
    nodes: int
    resource: str = ""
    asked: int = 0
    free: int = 0
    unit: str = ""
    nearest: str = ""
    """The node with the most of the missing amount."""
    cards: int = 0
    """The number of cards on these nodes that fail this check; 0 if the check is not about cards."""

    @property
    def line(self) -> str:
        """``<nodes> <text>`` with the amounts."""
        text = f"{self.nodes} {self.text}" if self.nodes else self.text
        if not self.asked:
            return text
        asked, free = shown(self.asked, self.unit), shown(self.free, self.unit)
        missing = shown(max(0, self.asked - self.free), self.unit)
        return f"{text} (asked {asked}, at most {free} free, {missing} missing)"


class NearCard(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One card of a nearly feasible node: the codes of the checks that it fails, and its free amounts.

    ``memory`` in MiB, ``cores`` in percent or AI cores, ``slots`` in shares.
    """

    id: str
    index: int
    codes: tuple[str, ...] = ()
    memory: int = 0
    cores: int = 0
    slots: int = 0


class NearNode(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A nearly feasible node: all checks that fail there, and its cards if the pod requests cards."""

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
    """``placed`` or ``pending`` for a pod, ``admitted`` or ``rejected`` for a PodGroup."""
    node: str = ""
    message: str = ""
    """The message of the condition ``PodScheduled`` and the Event."""
    nodes: int = 0
    """The number of nodes in the cluster."""
    feasible: int = 0
    """The number of feasible nodes."""
    refusals: tuple[Refusal, ...] = ()
    grants: tuple[ContainerGrant, ...] = ()
    environment: dict[str, dict[str, str]] = {}
    """Environment variables that the device plugins will inject, by container."""
    why: tuple[str, ...] = ()
    """Reasons for the node: policy, score, the runner-up."""
    gang: str = ""
    """What the gang still needs, if the pod belongs to one."""
    gang_reason: str = ""
    """Volcano's reason for the PodGroup: ``NotEnoughTasks``, …; '' for ``NotEnoughResources``."""
    gang_ready: bool = False
    """Whether the gang has its minimum without this pod, so that its PodGroup is not unschedulable."""
    queue: str = ""
    group: str = ""
    decided_by: str = ""
    caveats: tuple[str, ...] = ()
    """Limits of the device plugin that affect the pod, and preferences of the pod that were adapted."""
    closest: tuple[NearNode, ...] = ()
    """For a waiting pod: the nodes that lack least, the nearest first."""


def shown(amount: int, unit: str) -> str:
    """Return an amount for users: ``1500m`` CPUs, ``64Gi`` bytes, ``3000 MiB``, ``50%``, ``4``."""
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
