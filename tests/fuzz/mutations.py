"""Nearly valid values: a published value with parts removed, duplicated, swapped or replaced by an
unexpected value.

Two kinds: texts, taken apart at the marks that the formats are made of, and trees as JSON and YAML know them. What is
drawn is a published value and a few numbers, each of which stands for one change: that is fast, and what is found is
made smaller by leaving changes out.
"""

import copy
import json
import re
from collections.abc import Iterator, Sequence
from random import Random
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
_CHANGES = st.lists(st.integers(0, 2**32), max_size=4)
_LONGEST = 20_000
"""Characters of a changed text: a word that is repeated some times a hundredfold would fill the memory."""
_DEEP = (b"[" * 100_000, b'{"metadata":' * 100_000, b"", b"null", b"\xff\xfe", b'{"metadata":{"name":"a"}', b"{}{}")


def texts(*published: str) -> st.SearchStrategy[str]:
    """Return texts near the published ones; some are as published, so that what follows a parser is reached too."""
    return st.builds(_changed_text, st.sampled_from(published), _CHANGES)


def odd_texts() -> st.SearchStrategy[str]:
    """Return texts of which something is wrong, and sometimes any text at all."""
    return st.sampled_from(ODD_TEXTS) | st.text(max_size=8)


def trees(*published: Any) -> st.SearchStrategy[Any]:
    """Return trees near the published ones."""
    return st.builds(_changed_tree, st.sampled_from(published), _CHANGES)


def documents(*published: Any) -> st.SearchStrategy[bytes]:
    """Return JSON near the published trees; sometimes bytes that are hardly JSON any more."""
    whole = trees(*published).map(_json)
    broken = st.builds(_broken, whole, st.integers(0, 2**32))
    return st.one_of(whole, whole, whole, broken, st.sampled_from(_DEEP))


def _json(tree: Any) -> bytes:
    return json.dumps(tree, ensure_ascii=False).encode(errors="replace")


def _odd(random: Random) -> str:
    if random.random() < 0.1:
        return "".join(chr(random.choice((random.randrange(0x250), 0x1F600, 0x10FFFF))) for _ in range(3))
    return random.choice(ODD_TEXTS)


def _changed_text(text: str, changes: Sequence[int]) -> str:
    if not changes:
        return text
    pieces: list[Any] = [piece for piece in _MARKS.split(text) if piece] or [""]
    for number in changes:
        _change_pieces(pieces, Random(number))
    return "".join(pieces)[:_LONGEST]


def _change_pieces(pieces: list[Any], random: Random) -> None:
    at = random.randrange(len(pieces))
    match random.randrange(7):
        case 0 | 1:
            pieces[at] = _odd(random)
        case 2:
            pieces.insert(at, _odd(random))
        case 3:
            pieces[at : at + random.choice((1, 1, 1, 5))] = [""]
        case 4:
            pieces[at:at] = pieces[at : at + random.choice((1, 1, 8))] * random.choice((1, 2, 100))
        case 5:
            other = random.randrange(len(pieces))
            pieces[at], pieces[other] = pieces[other], pieces[at]
        case _:
            del pieces[at + 1 :]


def _changed_tree(tree: Any, changes: Sequence[int]) -> Any:
    if not changes:
        return tree
    root: list[Any] = [copy.deepcopy(tree)]
    for number in changes:
        random = Random(number)
        holder, key = random.choice(list(_places(root)))
        _change_place(holder, key, random)
        if not root:
            root.append(None)
    return root[0]


def _places(tree: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every place of a tree: the mapping or list, and the key or number."""
    if isinstance(tree, dict | list):
        for key in list(tree) if isinstance(tree, dict) else range(len(tree)):
            yield tree, key
            yield from _places(tree[key])


def _change_place(holder: Any, key: Any, random: Random) -> None:
    value = holder[key]
    match random.randrange(9):
        case 0:
            holder[key] = copy.deepcopy(random.choice(ODD_LEAVES))
        case 1:
            holder[key] = _odd(random)
        case 2 | 3 | 4 if isinstance(value, str | int | float):
            holder[key] = _changed_text(str(value), [random.getrandbits(32) for _ in range(random.choice((1, 1, 3)))])
        case 5 if isinstance(holder, dict):
            holder[_odd(random)] = holder.pop(key)
        case 6:
            for number in range(random.choice((1, 40))):
                if isinstance(holder, list):
                    holder.insert(key, copy.deepcopy(value))
                else:
                    holder[f"{key}{number}"] = copy.deepcopy(value)
        case 7:
            holder[key] = [value]
        case _:
            del holder[key]


def _broken(text: bytes, number: int) -> bytes:
    random = Random(number)
    at = random.randrange(len(text) + 1)
    return text[:at] + random.randbytes(random.randrange(4)) + text[at + random.randrange(4) :]
