"""Why no node is feasible: failed checks, counted over all nodes, and in detail for the nodes that lack least.

All checks are over the same R nodes, the rows of the view, sorted by name. :mod:`.first_failing` counts each node once.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from deviceshare.families import Check, FirstFailing
from deviceshare.model import NearCard, NearNode, Refusal
from deviceshare.state import Bools, CardView, Ints

Value = TypeVar("Value", bound=np.generic)

CLOSEST = 3
"""The number of nodes that are reported in detail."""

_NO_CARDS, _NUMBER = "CardNotFound", "NodeInsufficientDevice"
_TOO_LITTLE_MEMORY = "CardInsufficientMemory"
_EXCLUDING = ("CardTypeMismatch", "CardUuidMismatch")
_ELSEWHERE = 5.0
"""The distance added for a node that the node filter does not admit: less than for a node without cards."""
_LEAST = 1e-6
"""The least distance of a check that fails."""


def everywhere(check: Check, rows: Ints, total: int) -> Check:
    """Return a check of some rows (int64[r]) as a check of all ``total`` rows; all other rows pass it."""
    if len(rows) == total:
        return check

    first = check.first
    if first is not None:
        first = FirstFailing(
            nodes=_scattered(first.nodes, rows, total),
            left=_scattered(first.left, rows, total),
            considered=_scattered(first.considered, rows, total),
            on_node=_scattered(first.on_node, rows, total),
            free=None if first.free is None else _scattered(first.free, rows, total),
            free_cards=None if first.free_cards is None else _scattered(first.free_cards, rows, total),
        )
    return replace(
        check,
        nodes=_scattered(check.nodes, rows, total),
        failed=_scattered(check.failed, rows, total),
        free=None if check.free is None else _scattered(check.free, rows, total),
        cards=None if check.cards is None else _scattered(check.cards, rows, total),
        free_cards=None,
        first=first,
    )


def _scattered(array: NDArray[Value], rows: Ints, total: int) -> NDArray[Value]:
    whole = np.zeros((total, *array.shape[1:]), dtype=array.dtype)
    whole[rows] = array
    return whole


def merged(checks: Iterable[Check]) -> list[Check]:
    """Merge the checks of several families with the same code and text.

    Of checks with different requested amounts (of several containers), keeps the check that most nodes fail.
    """
    found: dict[tuple[str, str], dict[tuple[int, int], Check]] = {}
    for check in checks:
        same = found.setdefault((check.code, check.text), {})
        amount = check.asked, check.needed
        known = same.get(amount)
        same[amount] = check if known is None else _either(known, check)
    return [max(same.values(), key=lambda check: int(np.count_nonzero(check.nodes))) for same in found.values()]


def _either(one: Check, other: Check) -> Check:
    failed = np.maximum(np.where(one.nodes, one.failed, 0), np.where(other.nodes, other.failed, 0))
    free = None
    if one.free is not None and other.free is not None:
        free = np.maximum(_free_where_failed(one), _free_where_failed(other))
    cards = one.cards if other.cards is None else other.cards
    if one.cards is not None and other.cards is not None:
        cards = (one.cards & one.nodes[:, None]) | (other.cards & other.nodes[:, None])
    return replace(
        one, nodes=one.nodes | other.nodes, failed=failed, free=free, cards=cards, first=_either_first(one, other)
    )


def _either_first(one: Check, other: Check) -> FirstFailing | None:
    mine, theirs = one.first, other.first
    if mine is None or theirs is None:
        return mine or theirs
    return FirstFailing(
        nodes=np.where(one.nodes, mine.nodes, theirs.nodes),
        left=np.where(one.nodes, mine.left, theirs.left),
        considered=np.where(one.nodes, mine.considered, theirs.considered),
        on_node=np.where(one.nodes, mine.on_node, theirs.on_node),
        free=None if mine.free is None or theirs.free is None else np.where(one.nodes, mine.free, theirs.free),
        free_cards=None
        if mine.free_cards is None or theirs.free_cards is None
        else np.where(one.nodes[:, None], mine.free_cards, theirs.free_cards),
    )


def _free_where_failed(check: Check) -> Ints:
    free: Ints = np.where(check.nodes, np.maximum(0 if check.free is None else check.free, 0), -1)
    return free


def counted(check: Check, name: Callable[[int], str], admitted: Bools) -> Refusal:
    """Return a check as a refusal, counted over the nodes.

    If admitted nodes (bool[R]) fail the check, the largest free amount is theirs: the pod cannot use other nodes.
    """
    free = None
    if check.free is not None:
        usable = check.nodes & admitted
        free = _free_where_failed(replace(check, nodes=usable) if usable.any() else check)
    return refusal_of(
        check,
        nodes=int(np.count_nonzero(check.nodes)),
        free=0 if free is None else int(free.max()),
        cards=int(check.failed[check.nodes].sum()),
        nearest="" if free is None else name(int(free.argmax())),
    )


def refusal_of(check: Check, *, nodes: int, free: int, cards: int, nearest: str = "") -> Refusal:
    """Return a check as a refusal of some nodes."""
    return Refusal(
        code=check.code,
        text=check.text,
        nodes=nodes,
        resource=check.resource,
        asked=check.asked,
        free=free,
        unit=check.unit,
        nearest=nearest,
        cards=cards,
        needed=check.needed,
    )


def largest_cards(of_cards: Iterable[Check], view: CardView | None, admitted: Bools) -> dict[tuple[str, int], int]:
    """Return how much memory the largest card has where it is less than is asked, by text and amount of the check.

    Cards that the pod excludes by model or id, and those of nodes that the node filter does not admit (bool[R]), do not
    count; if it admits none, those of all nodes do. ``of_cards``: the checks of cards, not merged.
    """
    found: dict[tuple[str, int], int] = {}
    if view is None:
        return found
    modes = view.mode
    checks = [(check, check.cards) for check in of_cards if check.cards is not None]
    unusable = np.logical_or.reduce(
        [(~admitted if admitted.any() else admitted)[:, None] | np.zeros_like(view.healthy)]
        + [failed for check, failed in checks if check.code in _EXCLUDING]
    )
    for check, failed in checks:
        if check.code != _TOO_LITTLE_MEMORY or check.asked <= view.memory[failed & ~unusable].max(initial=0):
            continue  # such a card is in use
        same_mode = np.isin(modes, modes[failed])
        key = check.text, check.asked
        found[key] = max(found.get(key, 0), int(view.memory[same_mode & ~unusable].max(initial=0)))
    return {(text, asked): most for (text, asked), most in found.items() if 0 < most < asked}


def with_largest(refusals: Iterable[Refusal], largest: Mapping[tuple[str, int], int]) -> tuple[Refusal, ...]:
    """Return refusals with what :func:`largest_cards` returns."""
    return tuple(
        replace(each, largest=most) if (most := largest.get((each.text, each.asked))) else each for each in refusals
    )


def closest(
    checks: Sequence[Check], view: CardView | None, name: Callable[[int], str], admitted: Bools
) -> tuple[NearNode, ...]:
    """Return the nodes that lack least, admitted nodes (bool[R]) first, each with all its failed checks.

    ``view`` None: the pod requests no cards.
    """
    if not checks:
        return ()
    lacks = np.sum([_lack(check, view) for check in checks], axis=0)
    lacking = np.flatnonzero(lacks)
    far = lacks + np.where(admitted, 0.0, _ELSEWHERE)
    rows = lacking[np.argsort(far[lacking], kind="stable")][:CLOSEST].tolist()
    found = []
    for row in rows:
        failing = [check for check in checks if check.nodes[row]]
        refusals = tuple(_on_one(check, row) for check in failing)
        found.append(NearNode(node=name(row), refusals=refusals, cards=_cards(failing, view, row)))
    return tuple(found)


def _lack(check: Check, view: CardView | None) -> NDArray[np.float64]:
    """Return float64[R]: the distance of nodes from passing a check, 0 if they pass.

    The missing fraction of an amount, the fraction of a node's cards that fail, or 1 for a check of the node itself. Of
    several cards that a container needs first of all the number that a check leaves missing counts. A node without
    cards of the family is farther than any node with such cards.
    """
    if check.code == _NO_CARDS:
        far = np.full(len(check.nodes), 10.0)
    elif check.needed > 1 and check.first is not None:
        first = check.first
        missing = np.minimum(first.considered, check.needed) - np.minimum(first.left, check.needed)
        part = np.ones(len(missing))
        if check.asked and first.free is not None:
            part = np.clip((check.asked - first.free) / check.asked, 0.0, 1.0)
        far = np.maximum(missing - 1 + part, 0.0) / check.needed
    elif check.code == _NUMBER and check.cards is None and check.first is not None:
        # Cards that another check excludes are counted there.
        far = np.clip((check.asked - check.first.on_node) / check.asked, 0.0, 1.0)
    elif check.asked and check.free is not None:
        far = np.clip((check.asked - check.free) / check.asked, 0.0, 1.0)
    elif check.cards is not None and view is not None:
        far = check.failed / np.maximum(np.count_nonzero(view.mode, axis=1), 1)
    else:
        far = np.ones(len(check.nodes))
    return np.where(check.nodes, np.maximum(far, _LEAST), 0.0)


def _on_one(check: Check, row: int) -> Refusal:
    """Return a check as a refusal of one node; of several cards that are needed, with how many of its cards pass."""
    first = check.first if check.needed > 1 else None
    free = check.free if first is None else first.free
    amount = 0 if free is None else max(0, int(free[row]))
    refusal = refusal_of(check, nodes=1, free=amount, cards=int(check.failed[row]))
    if first is None:
        return refusal
    left, considered, on_node = (int(cards[row]) for cards in (first.left, first.considered, first.on_node))
    return replace(refusal, left=left, considered=considered, excluded=on_node - considered)


def _cards(failing: Sequence[Check], view: CardView | None, row: int) -> tuple[NearCard, ...]:
    """Return all cards of a node with their free capacity and failed checks."""
    if view is None:
        return ()
    has = (view.memory, view.memory_used), (view.cores, view.cores_used), (view.slots, view.slots_used)
    left = [(all_of[row] - used[row]).clip(0).tolist() for all_of, used in has]
    found = []
    for column, card in enumerate(view.cards[row]):
        memory, cores, slots = (amounts[column] for amounts in left)
        codes = dict.fromkeys(check.code for check in failing if check.cards is not None and check.cards[row, column])
        found.append(
            NearCard(id=card.id, index=card.index, codes=tuple(codes), memory=memory, cores=cores, slots=slots)
        )
    return tuple(found)
