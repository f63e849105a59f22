"""Constants of several kernels: the score of an infeasible row, and the index of each field of a card on the second
axis of the table's block, int64[rows, fields, columns].

The kind of a card stands for all that no pod changes (:class:`deviceshare.state.CardKinds`); 0 is no card.
"""

NEVER = float("-inf")
"""The score of an infeasible row."""
NO_LIMIT = 1 << 61
"""A limit above every amount."""
EVERY_NODE = -2
"""In place of the column of a resource: no row needs to have any."""
INFEASIBLE = 1 << 62
"""The key of an infeasible card: greater than all other keys."""

UNLABELLED = -1
"""In place of a number of pods in the domain of a row: the row has no domain."""

KIND = 0
MEMORY_USED = 1
CORES_USED = 2
SLOTS_USED = 3

FIELDS = ("kind", "memory_used", "cores_used", "slots_used")
"""The fields of every card, in this order; the state of families follows."""

CUT_BITS = 8
UNPARTITIONED = 1 << 40
"""An instance is encoded as its position, the number of its geometry shifted by ``CUT_BITS``, and ``UNPARTITIONED``
where the card was not partitioned before."""
