"""Recorded cases for tests of ``deviceshare lab conformance``."""

import gzip
import json
from collections.abc import Callable
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

from deviceshare_lab.conformance.command import outcomes
from deviceshare_lab.conformance.recorded import FORMS
from deviceshare_lab.conformance.report import CaseOutcome

DATA = Path(__file__).parents[1] / "data" / "golden"
OF_DEVIATIONS = DATA.parent / "deviations" / "cases.jsonl.gz"
"""Cases that differ deliberately: some for each deviation."""
IDS = "volcano.sh/vgpu-ids-new"

Case = dict[str, Any]
Write = Callable[..., Path]
Run = Callable[..., tuple[int, list[str]]]


def recorded(family: str) -> list[Case]:
    return read(DATA / f"{family}.jsonl.gz")


def replayed(family: str) -> list[CaseOutcome]:
    return replay(DATA / f"{family}.jsonl.gz")


@cache
def read(path: Path) -> list[Case]:
    return [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]


@cache
def replay(path: Path) -> list[CaseOutcome]:
    return list(outcomes(path))


def a_case(
    family: str, mode: str = "rebuild", *, by_chance: bool = False, scored: bool = False, cards: int = 1
) -> Case:
    """Return a recorded case whose first step places a pod, that is as recorded.

    ``by_chance``: Volcano's choice of the card is random; ``scored``: the score is compared; ``cards``: the minimum
    number of cards of the node.
    """
    for case, outcome in zip(recorded(family), replayed(family), strict=True):
        first = case["steps"][0] if case.get("steps") else {}
        if outcome.touched or outcome.on_purpose or case["mode"] != mode or not first.get("allocate", {}).get("ok"):
            continue
        enough = len(case["initial"]["state"]) >= cards and (first["score"] or not scored)
        if enough and bool(first.get("nondeterministic")) == by_chance:
            return deepcopy(case)
    raise AssertionError(family)


def deviating(name: str) -> Case:
    """Return a case that differs by this deviation; by this one alone, if there is one."""
    found = [
        (outcome.verdict.rules != (name,), number, case)
        for path in (OF_DEVIATIONS, *(DATA / f"{family}.jsonl.gz" for family in FORMS))
        for number, (case, outcome) in enumerate(zip(read(path), replay(path), strict=True))
        if name in outcome.verdict.rules
    ]
    return deepcopy(min(found, key=lambda each: each[:2])[2])


def change_score(step: Case) -> None:
    step["score"] += 0.5


def change_state(step: Case) -> None:
    step["state"][0][1] += 1
