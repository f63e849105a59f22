"""Choosing cards by model name and by UUID, as pod annotations ask for it."""

import re

import numpy as np

from deviceshare.cards import Bools, CardView
from deviceshare.families.protocol import Demand

_WORD = re.compile(r"[A-Z0-9]+")


def items(text: str | None) -> tuple[str, ...]:
    """Split a comma list; blanks around items and empty items do not count."""
    return tuple(part.strip() for part in (text or "").split(",") if part.strip())


def type_matches(wanted: str, names: list[str]) -> list[bool]:
    """Return which model names a wanted type means, ignoring case.

    Whole words match first, so that A10 is not an A100. A part of a word counts only where no name has the whole word.
    """
    words = _WORD.findall(wanted.upper())
    if not words:
        return [False] * len(names)
    whole = [_contains(_WORD.findall(name.upper()), words) for name in names]
    return whole if any(whole) else [wanted.upper() in name.upper() for name in names]


def _contains(words: list[str], wanted: list[str]) -> bool:
    length = len(wanted)
    return any(words[start : start + length] == wanted for start in range(len(words) - length + 1))


def type_allowed(demand: Demand, view: CardView) -> Bools | None:
    """Return bool[R, D]: cards of a model that the pod accepts; None where it accepts all. Both lists count."""
    if not (demand.use_types or demand.nouse_types):
        return None
    names = view.type_names
    allowed = np.ones(len(names), dtype=np.bool_)
    if demand.use_types:
        allowed = np.any([type_matches(wanted, names) for wanted in demand.use_types], axis=0)
    for unwanted in demand.nouse_types:
        allowed &= ~np.array(type_matches(unwanted, names), dtype=np.bool_)
    return allowed[view.type]


def id_allowed(demand: Demand, view: CardView) -> Bools | None:
    """Return bool[R, D]: cards that the pod accepts by their id; None where it accepts all. A denied id wins."""
    if not (demand.use_ids or demand.nouse_ids):
        return None
    allowed = view.with_ids(demand.use_ids) if demand.use_ids else np.ones(view.mode.shape, dtype=np.bool_)
    return allowed & ~view.with_ids(demand.nouse_ids) if demand.nouse_ids else allowed
