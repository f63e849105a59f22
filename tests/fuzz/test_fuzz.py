"""Every parser raises only its typed error, for any input.

``make fuzz`` searches for a time, ``make test`` tries a few inputs each.
"""

import re

import numpy as np
import pytest
from deviceshare.model import Card, FormatError
from fuzz import corpus
from fuzz.mutations import texts
from fuzz.searching import EXAMPLES, SECONDS, SEED, search, search_for
from fuzz.targets import TARGETS, Target


@pytest.mark.timeout(0)
@pytest.mark.parametrize("name", TARGETS)
def test_only_typed_errors(name, report):
    if not SECONDS:
        search(name, TARGETS[name], examples=EXAMPLES, seed=SEED)
        return
    target = TARGETS[name]
    share = target.weight / sum(each.weight for each in TARGETS.values())
    report[name] = search_for(name, target, seconds=SECONDS * share, seed=SEED)


def careless_register(text: str) -> list[Card]:
    """Read a register annotation as one would who never saw a bad one."""
    cards = []
    for index, item in enumerate(text.removesuffix(":").split(":")):
        if item.count(",") < 5:
            raise FormatError("Node n", "register", item, "six fields")
        uuid, count, memory, model, health, mode = item.split(",")[:6]
        cards.append(Card(uuid, index, int(count), int(memory), 100, model, health == "true", mode))
    return cards


def careless_ids(text: str) -> list[str]:
    """Find the group of each MIG instance, and trust that there is one."""
    return [re.findall(r"\[(.*)-", item)[0] for item in text.split(":") if "[" in item]


def greedy_text(text: str) -> np.ndarray:
    """Reserve 12 GiB, which the machines have, and write nothing to them."""
    return np.empty(12 << 30, np.uint8)


@pytest.mark.parametrize(
    ("parse", "published", "error"),
    [
        (careless_register, corpus.REGISTER, ValueError),
        (careless_ids, corpus.IDS, IndexError),
        (greedy_text, ["a"], MemoryError),
    ],
)
def test_a_careless_parser_is_found_and_the_command_to_repeat_it_reported(parse, published, error):
    target = Target(texts(*published), parse, (FormatError,))
    with pytest.raises(error) as found:
        search("careless", target, examples=1000, seed=1)
    notes = "\n".join(found.value.__notes__)
    assert "FUZZ_SEED=1 FUZZ_EXAMPLES=1000 .venv/bin/pytest tests/fuzz -k 'careless'" in notes
    assert "given=" in notes


def test_a_search_ends_in_time_and_returns_the_number_of_inputs():
    target = Target(texts("0,2"), str.split)
    assert search_for("split", target, seconds=0.3, seed=1) >= 50
