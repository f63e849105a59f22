"""Cards that get no further pods, as an annotation of their Node: which, by whom, why and since when.

``deviceshare cordon card`` writes a JSON object, ``{"GPU-…": {"by": …, "reason": …, "since": …}}``. Written by hand, a
comma-separated list of cards suffices. A card is named by its id or its index.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

import msgspec
from msgspec.structs import replace

from deviceshare.families.card_lists import items
from deviceshare.families.numbers import whole
from deviceshare.model import Card, CardCordon, FormatError, Problem

ANNOTATION = "deviceshare.io/cordoned-cards"
MOST = 1024
"""The most cards of a node that the annotation may name."""
LONGEST = 1024
"""The most characters of a reason; the rest is omitted."""


class _Entry(msgspec.Struct, omit_defaults=True):
    by: str = ""
    reason: str = ""
    since: str = ""


_decode = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_entry = msgspec.json.Decoder(_Entry).decode
_decode_text = msgspec.json.Decoder(str).decode
_ERRORS = (msgspec.DecodeError, UnicodeError, RecursionError)
_EXPECTED = f"a JSON object of at most {MOST} cards with by, reason and since, or ids separated by commas"
_DETAILS = "a JSON object with the texts by, reason and since"


def read(text: str, subject: str) -> tuple[tuple[CardCordon, ...], list[Problem]]:
    """Return the cordons that the annotation contains, with the names of the cards as ids, and problems.

    A detail that cannot be read is '', and a problem: the card stays cordoned. Cards after the first ``MOST`` are
    omitted, which is a problem as well.

    Raises:
        FormatError: the annotation is malformed: it names no cards.
    """
    text = text.strip()
    field = f"metadata.annotations[{ANNOTATION}]"
    entries: dict[str, msgspec.Raw | None]
    if text.startswith("{"):
        try:
            entries = {**_decode(text)}
        except _ERRORS:
            raise FormatError(subject, field, text, _EXPECTED) from None
    else:
        entries = dict.fromkeys(items(text))
        if any(set(name) & set('[]{}":; \t\n') for name in entries):
            raise FormatError(subject, field, text, _EXPECTED)
    problems = []
    if len(entries) > MOST:
        problems.append(Problem(subject, field, f"{len(entries)} cards", f"at most {MOST}, the others are ignored"))
    cordons = []
    for name, details in islice(entries.items(), MOST):
        entry, invalid = (_Entry(), {}) if details is None else _read_entry(details)
        cordons.append(CardCordon(name, entry.by[:LONGEST], entry.reason[:LONGEST], entry.since[:LONGEST]))
        for part, value in invalid.items():
            shown = bytes(value).decode(errors="replace")[:LONGEST]
            problems.append(Problem(subject, f"{field}[{name}]{part}", shown, _DETAILS if not part else "a text"))
    return tuple(cordons), problems


def _read_entry(details: msgspec.Raw) -> tuple[_Entry, dict[str, msgspec.Raw]]:
    """Return the details of a cordon, and the values that cannot be read: ``.reason``, or '' for all of them."""
    try:
        return _decode_entry(details), {}
    except _ERRORS:
        pass
    try:
        parts = _decode(details)
    except _ERRORS:
        return _Entry(), {"": details}
    entry, invalid = _Entry(), {}
    for name in _Entry.__struct_fields__:
        if name in parts:
            try:
                setattr(entry, name, _decode_text(parts[name]))
            except _ERRORS:
                invalid[f".{name}"] = parts[name]
    return entry, invalid


def write(cordons: Iterable[CardCordon]) -> str | None:
    """Return the value of the annotation; None, which removes the annotation, for no cordons."""
    entries = {cordon.id: _Entry(cordon.by, cordon.reason, cordon.since) for cordon in cordons}
    return msgspec.json.encode(entries, order="sorted").decode() if entries else None


def resolve(
    cordons: Iterable[CardCordon], cards: Sequence[Card]
) -> tuple[tuple[Card, ...], tuple[CardCordon, ...], list[str]]:
    """Return the cards with the cordoned ones marked, the cordons with the ids of cards, and names of unknown cards.

    An index names every card of the node that has it; of several cordons of a card the first counts.
    """
    found: dict[str, CardCordon] = {}
    unknown = []
    ids = {card.id for card in cards}
    for cordon in cordons:
        index = None if cordon.id in ids else whole(cordon.id)
        named = [card.id for card in cards if card.id == cordon.id or (index is not None and card.index == index)]
        if not named:
            unknown.append(cordon.id)
        for name in named:
            found.setdefault(name, replace(cordon, id=name))
    if not found:
        return tuple(cards), (), unknown
    marked = tuple(replace(card, cordoned=True) if card.id in found else card for card in cards)
    return marked, tuple(found[name] for name in sorted(found)), unknown


def of_node(annotations: Mapping[str, str], subject: str) -> tuple[tuple[CardCordon, ...], list[Problem]]:
    """Return what :func:`read` finds in the annotation of a Node. Raises :class:`~deviceshare.model.FormatError`."""
    return read(annotations.get(ANNOTATION, ""), subject)
