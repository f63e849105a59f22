"""Values that are nearly right: a published value with pieces dropped, doubled, swapped, or replaced by what nobody
expects there.

Two kinds: texts, taken apart at the marks that the formats are made of, and trees as JSON and YAML know them.
"""

import copy
import json
import re
from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import strategies as st

ODD_TEXTS = (
    "", " ", "0", "00", "-0", "-1", "+1", "1.5", "1e3", "1e999", "NaN", "Infinity", "0x10", "1_000", "9" * 19, "9" * 40,
    str(2**31), str(2**53), str(2**53 + 1), str(2**63 - 1), str(2**63), str(2**64), "-" + str(2**63), "٣", "𝟙", "²",
    "½", "true", "FALSE", "null", "None", "yes", "💥", "\u0000", "\u2028", "\ufeff", "\u202e", "é", "a" * 2000, "%s",
    "{}", "..", "GPU-0", "GPU-0[group1-0]", "GPU-0[-1]", "[0]", "]", "[", "{", "}", '"', "'", "\\", "\n", "\t", ",",
    ":", ";", "=", "-", "/", "|", "#", "&a", "*a", "!!python/object:os.system", "<<", "4Gi", "-4Gi", "1n", "1E", "1Ei",
    "100m", ".5", "5.",
)  # fmt: skip
ODD_LEAVES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 1.5, -0.0, 1e300, 2**31, 2**53, 2**53 + 1, 2**63 - 1, 2**63, 2**64, 10**40,
    -(2**63) - 1, [], {}, [[]], [None], {"": None}, [{}], {"a": {"b": {"c": []}}},
)  # fmt: skip

_MARKS = re.compile(r"([,;:|=\[\]{}\"'\n/ .\-])")
_MOST_CHANGES = 4


def odd_texts() -> st.SearchStrategy[str]:
    """Return texts of which something is wrong, and sometimes any text at all."""
    return st.sampled_from(ODD_TEXTS) | st.text(max_size=8)


def texts(*published: str) -> st.SearchStrategy[str]:
    """Return texts near the published ones; often one of them as it is, so that what follows it is reached too."""
    return st.builds(_changed_text, st.sampled_from(published), _changes(_text_change()))


def trees(*published: Any) -> st.SearchStrategy[Any]:
    """Return trees near the published ones."""
    return st.builds(_changed_tree, st.sampled_from(published), _changes(_tree_change()))


def documents(*published: Any) -> st.SearchStrategy[bytes]:
    """Return JSON near the published trees; sometimes bytes that are hardly JSON any more."""
    whole = trees(*published).map(_json)
    broken = st.builds(_broken, whole, st.integers(0, 2**16), st.binary(max_size=4))
    return st.one_of(whole, whole, whole, broken, st.sampled_from(_DEEP))


def _json(tree: Any) -> bytes:
    return json.dumps(tree, ensure_ascii=False).encode(errors="replace")


_DEEP = (b"[" * 100_000, b'{"metadata":' * 100_000, b"", b"null", b"\xff\xfe", b'{"metadata":{"name":"a"}', b"{}{}")


def _changes(change: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    return st.lists(change, max_size=_MOST_CHANGES)


def _text_change() -> st.SearchStrategy[Callable[[list[str]], None]]:
    where = st.integers(0, 2**16)
    return st.one_of(
        st.builds(_replace, where, odd_texts()),
        st.builds(_insert, where, odd_texts()),
        st.builds(_drop, where),
        st.builds(_repeat, where, st.sampled_from((2, 3, 200))),
        st.builds(_swap, where, where),
        st.builds(_cut, where),
    )


def _changed_text(text: str, changes: Sequence[Callable[[list[str]], None]]) -> str:
    pieces = [piece for piece in _MARKS.split(text) if piece]
    for change in changes:
        if not pieces:
            pieces.append("")
        change(pieces)
    return "".join(pieces)


def _replace(where: int, what: Any) -> Callable[[list[Any]], None]:
    def change(pieces: list[Any]) -> None:
        pieces[where % len(pieces)] = what

    return change


def _insert(where: int, what: Any) -> Callable[[list[Any]], None]:
    def change(pieces: list[Any]) -> None:
        pieces.insert(where % len(pieces), what)

    return change


def _drop(where: int) -> Callable[[list[Any]], None]:
    def change(pieces: list[Any]) -> None:
        del pieces[where % len(pieces)]

    return change


def _repeat(where: int, times: int) -> Callable[[list[Any]], None]:
    def change(pieces: list[Any]) -> None:
        at = where % len(pieces)
        pieces[at : at + 1] = [copy.deepcopy(pieces[at]) for _ in range(times)]

    return change


def _swap(one: int, other: int) -> Callable[[list[Any]], None]:
    def change(pieces: list[Any]) -> None:
        first, second = one % len(pieces), other % len(pieces)
        pieces[first], pieces[second] = pieces[second], pieces[first]

    return change


def _cut(where: int) -> Callable[[list[Any]], None]:
    def change(pieces: list[Any]) -> None:
        del pieces[where % len(pieces) :]

    return change


def _broken(text: bytes, where: int, what: bytes) -> bytes:
    at = where % (len(text) + 1)
    return text[:at] + what + text[at + len(what) + 1 :]


Holder = dict[str, Any] | list[Any]
Change = Callable[[Holder, Any], None]
"""Changes what stands in a mapping or a list under a key or number."""


def _tree_change() -> st.SearchStrategy[tuple[int, Change]]:
    leaves = st.sampled_from(ODD_LEAVES) | odd_texts()
    change = st.one_of(
        st.builds(_put, leaves),
        st.builds(_reword, st.lists(_text_change(), min_size=1, max_size=3)),
        st.builds(_reword, st.lists(_text_change(), min_size=1, max_size=3)),
        st.just(_remove),
        st.builds(_rename, odd_texts()),
        st.builds(_double, st.sampled_from((1, 40))),
        st.just(_wrap),
    )
    return st.tuples(st.integers(0, 2**16), change)


def _changed_tree(tree: Any, changes: Sequence[tuple[int, Change]]) -> Any:
    root: list[Any] = [copy.deepcopy(tree)]
    for where, change in changes:
        places = list(_places(root))
        holder, key = places[where % len(places)]
        change(holder, key)
        if not root:
            root.append(None)
    return root[0]


def _places(tree: Any) -> Any:
    """Yield every place of a tree: the mapping or list, and the key."""
    if isinstance(tree, (dict, list)):
        for key in list(tree) if isinstance(tree, dict) else range(len(tree)):
            yield tree, key
            yield from _places(tree[key])


def _put(what: Any) -> Change:
    def change(holder: Any, key: Any) -> None:
        holder[key] = copy.deepcopy(what)

    return change


def _reword(changes: Sequence[Callable[[list[str]], None]]) -> Change:
    def change(holder: Any, key: Any) -> None:
        value = holder[key]
        if isinstance(value, (str, int, float)):
            holder[key] = _changed_text(str(value), changes)

    return change


def _remove(holder: Any, key: Any) -> None:
    del holder[key]


def _rename(name: str) -> Change:
    def change(holder: Any, key: Any) -> None:
        if isinstance(holder, dict):
            holder[name] = holder.pop(key)

    return change


def _double(more: int) -> Change:
    def change(holder: Any, key: Any) -> None:
        for number in range(more):
            if isinstance(holder, list):
                holder.insert(key, copy.deepcopy(holder[key]))
            else:
                holder[f"{key}{number}"] = copy.deepcopy(holder[key])

    return change


def _wrap(holder: Any, key: Any) -> None:
    holder[key] = [holder[key]]
