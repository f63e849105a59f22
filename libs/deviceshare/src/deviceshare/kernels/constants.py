"""Numbers that several kernels share: what a row is worth that is not to be had, and where each field of a card stands,
on the second axis of the table's block, int64[rows, fields, columns].
"""

NEVER = float("-inf")

MODE = 0
TYPE = 1
MEMORY = 2
MEMORY_USED = 3
CORES = 4
CORES_USED = 5
SLOTS = 6
SLOTS_USED = 7
HEALTHY = 8
NETWORK = 9

NAMES = (
    "mode", "type", "memory", "memory_used", "cores", "cores_used", "slots", "slots_used", "healthy", "network",
)  # fmt: skip
"""The fields that every card has, in this order; what families count beside comes after them."""
