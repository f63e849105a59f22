"""Filters and paging of the lists of the JSON API. Pure."""

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from deviceshare_metrics.core.states import node_state

MAX_ITEMS = 10_000
"""The largest ``limit``."""
PAGING = ("limit", "continue")


class BadQueryError(Exception):
    """A parameter of a request is not valid; the message is for users."""


class Listing(NamedTuple):
    """How a kind is filtered and ordered: a function per filter, and a unique key that orders the items.

    The functions ``state`` and ``model`` return several values, of which one has to match, in a part for ``model``.
    """

    filters: Mapping[str, Callable[[Any], Any]]
    key: Callable[[Any], tuple[Any, ...]]


_NAMESPACE = {"namespace": lambda item: item.namespace}
_QUEUE = {"queue": lambda item: item.queue}
_NODE = {"node": lambda item: item.node}
_STATE = {"state": lambda item: (item.state,)}
_STATUS = {"state": lambda item: (item.state, item.status)}
_MODEL = {"model": lambda item: [card.type for card in item.cards]}

LISTINGS: Mapping[str, Listing] = {
    "nodes": Listing(
        {"node": lambda item: item.name, "state": lambda item: (node_state(item),)}, lambda item: (item.name,)
    ),
    "devices": Listing(_NODE, lambda item: (item.node, item.index, item.id)),
    "drivers": Listing(_NODE, lambda item: (item.driver, item.node)),
    "pods": Listing(
        {**_NAMESPACE, **_QUEUE, **_NODE, **_MODEL, **_STATUS}, lambda item: (item.namespace, item.name, item.uid)
    ),
    "claims": Listing({**_NAMESPACE, **_NODE, **_STATE}, lambda item: (item.node, item.id, item.uid)),
    "queues": Listing({"queue": lambda item: item.name}, lambda item: (item.name,)),
    "events": Listing(
        {**_NAMESPACE, **_QUEUE, **_NODE, "state": lambda item: (item.step,), "pod": lambda item: item.name},
        lambda item: (-item.number,),
    ),
    "waiting": Listing(
        {**_NAMESPACE, **_QUEUE, **_STATE},
        lambda item: (-item.pods, item.queue, item.namespace, item.group, item.state, item.reason),
    ),
}
FILTERS: Mapping[str, tuple[str, ...]] = {kind: tuple(listing.filters) for kind, listing in LISTINGS.items()}
"""The parameters that filter a list; given several times, an item may have any of the values."""


def select(kind: str, items: Sequence[Any], query: Iterable[tuple[str, str]]) -> tuple[Sequence[Any], str]:
    """Return the items that a query asks for, and how the query continues ('': it does not).

    Upper and lower case of a ``state`` or a ``model`` make no difference. Objects that appear or disappear between two
    parts of a list neither repeat nor hide others.

    Raises:
        BadQueryError: a parameter is unknown or not valid.
    """
    listing = LISTINGS[kind]
    wanted: dict[str, set[str]] = {}
    paging = {}
    for name, value in query:
        if name in listing.filters:
            wanted.setdefault(name, set()).add(value.lower() if name in ("state", "model") else value)
        elif name in PAGING:
            paging[name] = value
        else:
            known = ", ".join((*listing.filters, *PAGING))
            raise BadQueryError(f"{name}: unknown parameter of {kind}; known: {known}")
    for name, values in wanted.items():
        value_of = listing.filters[name]
        if name == "state":
            items = [item for item in items if any(str(each).lower() in values for each in value_of(item))]
        elif name == "model":
            items = [
                item for item in items if any(value in each.lower() for value in values for each in value_of(item))
            ]
        else:
            items = [item for item in items if value_of(item) in values]
    if not paging:
        return items, ""
    items = sorted(items, key=listing.key)
    if after := paging.get("continue"):
        try:
            items = items[bisect_right(items, _key_of(after), key=listing.key) :]
        except (TypeError, RecursionError):
            raise BadQueryError("continue: expected the value of the previous answer") from None
    limit = _limit_of(paging.get("limit", str(MAX_ITEMS)))
    return items[:limit], _token_of(listing.key(items[limit - 1])) if len(items) > limit else ""


def _limit_of(value: str) -> int:
    if len(value) > 9 or not value.isascii() or not value.isdigit() or not 1 <= int(value) <= MAX_ITEMS:
        raise BadQueryError(f"limit: expected a number from 1 to {MAX_ITEMS}")
    return int(value)


def _token_of(key: tuple[Any, ...]) -> str:
    return urlsafe_b64encode(msgspec.json.encode(key)).decode()


def _key_of(token: str) -> tuple[Any, ...]:
    try:
        key = msgspec.json.decode(urlsafe_b64decode(token))
    except (binascii.Error, ValueError, RecursionError, msgspec.MsgspecError):
        key = None
    if not isinstance(key, list):
        raise BadQueryError("continue: expected the value of the previous answer")
    return tuple(key)
