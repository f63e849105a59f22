"""The policies by which placement chooses among feasible nodes, and among the cards of a node."""

import msgspec

NODE_POLICY, CARD_POLICY = "deviceshare.io/node-scheduler-policy", "deviceshare.io/card-scheduler-policy"
"""Annotations of Pods, PodGroups and Queues."""


class Policies(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The policies that an object sets for nodes and for cards, '' for none.

    ``node_from`` and ``card_from``: the kind of the object that sets each for a pod (``PodGroup``, ``Queue``); '' for
    the object itself.
    """

    node: str = ""
    card: str = ""
    node_from: str = ""
    card_from: str = ""

    @property
    def own(self) -> "Policies":
        """What the object itself sets."""
        if not (self.node_from or self.card_from):
            return self
        return Policies("" if self.node_from else self.node, "" if self.card_from else self.card)

    def with_defaults(self, other: "Policies", kind: str) -> "Policies":
        """Return the policies with those of another object, of this kind, where none is set."""
        if (self.node or not other.node) and (self.card or not other.card):
            return self
        node = (self.node, self.node_from) if self.node else (other.node, kind if other.node else "")
        card = (self.card, self.card_from) if self.card else (other.card, kind if other.card else "")
        return Policies(node[0], card[0], node[1], card[1])


NO_POLICIES = Policies()
