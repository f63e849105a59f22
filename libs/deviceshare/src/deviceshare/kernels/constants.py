"""Numbers that several kernels share: what a row is worth that is not to be had, and where each field of a card stands,
on the second axis of the table's block, int64[rows, fields, columns].

The kind of a card says what no pod changes (:class:`deviceshare.state.Kinds`); 0 is no card.
"""

NEVER = float("-inf")
NO_LIMIT = 1 << 61
"""More than there is of anything."""
EVERY_NODE = -2
"""Instead of the column of a resource: it does not matter which a row has."""
INFEASIBLE = 1 << 62
"""The key of a card that is not to be had: greater than all others."""

KIND = 0
MEMORY_USED = 1
CORES_USED = 2
SLOTS_USED = 3

FIELDS = ("kind", "memory_used", "cores_used", "slots_used")
"""What there is of every card, in this order; what families count beside comes after it."""

CUT_BITS = 8
UNPARTITIONED = 1 << 40
"""An instance is remembered as its position, the number of its geometry above ``CUT_BITS``, and ``FRESH`` where the
card was not cut before."""
