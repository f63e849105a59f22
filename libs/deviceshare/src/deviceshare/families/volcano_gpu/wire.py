"""Cards and annotations of Volcano's first device plugin: ``volcano.sh/gpu-memory`` and ``volcano.sh/gpu-number``.

Cards have an index but no UUID. Source: volcano-sh/devices, volcano-sh/volcano
(pkg/scheduler/api/devices/nvidia/gpushare).
"""

from collections.abc import Iterable

from deviceshare.families.numbers import whole
from deviceshare.model import Card, FormatError, Resources

MEMORY = "volcano.sh/gpu-memory"
"""Resource: device memory in MiB; on a node, the sum over its cards."""
NUMBER = "volcano.sh/gpu-number"
"""Resource: whole cards."""
UNHEALTHY = "volcano.sh/gpu-unhealthy-ids"
"""On a node: indexes or UUIDs of cards that must not be used, comma-separated; on a pod: not by this pod."""
INDEX = "volcano.sh/gpu-index"
"""On a pod: indexes of its cards, comma-separated; before placement, the user's requested cards."""
PREDICATE_TIME = "volcano.sh/predicate-time"
"""On a pod: time of placement, unix nanoseconds; the plugin serves the oldest pod first."""

ASSIGNED = "volcano.sh/gpu-assigned"
"""On a pod: ``true`` once the plugin has served it."""

MODE = "gpu-share"
CARD_CORES = 100
MAX_CARDS = 1024
"""Upper limit of cards per node: a larger number is an error."""


def read_cards(capacity: Resources, node: str, model: str = "") -> tuple[Card, ...]:
    """Return the node's cards, or () if the plugin registered none.

    Args:
        capacity: ``status.capacity``. Memory is divided evenly, as in Volcano; a node with ``NUMBER`` only (plugin
            strategy ``number``) has cards that are allocated whole.
        node: the node's name, for messages.
        model: the model of all its cards, or ''.

    Raises:
        FormatError: memory without a number of cards, or more than ``MAX_CARDS`` cards.
    """
    memory, number = capacity.get(MEMORY, 0), capacity.get(NUMBER, 0)
    if number > MAX_CARDS or (memory and not number):
        shown = str(number) if NUMBER in capacity else ""
        raise FormatError(
            f"Node {node}",
            f"status.capacity[{NUMBER}]",
            shown,
            f"the number of cards that share {memory} MiB, from 1 to {MAX_CARDS}",
        )
    if not number:
        return ()
    each = memory // number
    # A share is at least 1 MiB, so memory alone limits how many pods share a card.
    return tuple(Card(str(index), index, max(each, 1), each, CARD_CORES, model, mode=MODE) for index in range(number))


def read_index(text: str, pod: str) -> tuple[int, ...]:
    """Return the card indexes of the annotation ``INDEX``, in order; () if blank.

    Raises:
        FormatError: not a comma-separated list of distinct integers.
    """
    numbers = [whole(item) for item in text.split(",") if item.strip()]
    indexes = tuple(number for number in numbers if number is not None)
    if len(indexes) < len(numbers) or len(set(indexes)) < len(indexes):
        expected = "distinct card indexes separated by commas, such as 0,3"
        raise FormatError(f"Pod {pod}", f"metadata.annotations[{INDEX}]", text, expected)
    return indexes


def write_index(indexes: Iterable[int]) -> str:
    """Return the value of ``INDEX``: ``0,3``."""
    return ",".join(map(str, indexes))


def write_predicate_time(now: float) -> str:
    """Return the value of ``PREDICATE_TIME`` for a time in unix seconds."""
    return str(round(now * 1_000_000_000))
