"""`deviceshare lab conformance` on whole sessions: decisions are as recorded, except for our rules."""

import gzip
import json
import re
from collections import Counter
from collections.abc import Callable
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from deviceshare.conf import known
from deviceshare_cli.errors import CommandError
from deviceshare_lab.conformance.command import conformance
from deviceshare_lab.conformance.sessions.command import MAX_PERCENT, SessionSummary, as_text, summarize
from deviceshare_lab.conformance.sessions.replay import DEVICES, NODES, ORDER, PHASES, PODS
from deviceshare_lab.conformance.sessions.rules import RULES

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "data" / "sessions"
FILES = ("sessions.jsonl.gz", "sessions-unit.jsonl.gz", "sessions-more.jsonl.gz")
MIN_IDENTICAL, MIN_IN_ORDER = 98.0, 95.0
"""Percent of the sessions with all arguments of our rules off."""

RecordedLine = dict[str, Any]
Write = Callable[..., Path]


@cache
def replayed(file: str) -> SessionSummary:
    return summarize([DATA / file], as_volcano=False)


@cache
def as_volcano(file: str) -> SessionSummary:
    return summarize([DATA / file], as_volcano=True)


def recorded(name: str, file: str = "sessions.jsonl.gz") -> RecordedLine:
    for line in gzip.decompress((DATA / file).read_bytes()).splitlines():
        found: RecordedLine = json.loads(line)
        if name in (found.get("id"), found.get("name")):
            return deepcopy(found)
    raise AssertionError(name)


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(*lines: RecordedLine | str, name: str = "some.jsonl") -> Path:
        path = tmp_path / name
        path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
        return path

    return write


@pytest.mark.parametrize("file", FILES)
def test_rules_explain_every_difference(file):
    summary = replayed(file)
    assert summary.failed == 0, as_text(summary, verbose=True)


def test_rules_explain_few_sessions():
    assert sum(len(replayed(file).outcomes) for file in FILES[:2]) >= 240 + 44
    for file in FILES:
        summary = replayed(file)
        assert summary.percent(summary.by_rule) <= MAX_PERCENT, as_text(summary, verbose=False)


@pytest.mark.parametrize("file", FILES)
def test_nearly_all_sessions_are_identical_without_our_rules(file):
    summary = as_volcano(file)
    identical = summary.percent(summary.same(PODS, NODES, DEVICES))
    in_order = summary.percent(summary.same(PODS, NODES, DEVICES, ORDER))
    assert identical >= MIN_IDENTICAL, as_text(summary, verbose=True)
    assert in_order >= MIN_IN_ORDER, as_text(summary, verbose=True)


def test_the_recorded_sessions_have_many_placements_and_phases():
    """Sessions that place no pod, or all pods at once, would test little."""
    outcomes = replayed("sessions.jsonl.gz").outcomes
    assert sum(len(outcome.case.volcano.placed) for outcome in outcomes) > 8000
    assert sum(any(placed.annotations for placed in each.case.volcano.placed) for each in outcomes) > 20
    phases = Counter(phase for each in outcomes for phase in each.case.volcano.phases.values())
    assert min(phases[phase] for phase in ("Pending", "Inqueue", "Running")) > 100


def test_every_rule_explains_a_recorded_session():
    used = {name for file in FILES for outcome in replayed(file).outcomes for name in outcome.verdict.rules}
    assert used == {rule.name for rule in RULES}


def test_every_rule_has_its_argument_and_its_row_on_the_page():
    page = (ROOT / "docs" / "compatibility.md").read_text().partition("## Sessions")[2].partition("\n## ")[0]
    rows = [[cell.strip().strip("`") for cell in row.strip("|").split("|")] for row in page.splitlines() if "|" in row]
    assert [(row[0], row[3]) for row in rows[2:]] == [(rule.name, rule.argument) for rule in RULES]
    arguments = {rule.argument for rule in RULES if rule.argument}
    of_victims = {"deviceshare.PreemptionGangEnable", "deviceshare.PreemptionTierEnable"}  # no session has victims
    assert arguments == known.EXTENSIONS.keys() - of_victims


def placed_elsewhere(line: RecordedLine) -> None:
    line["volcano"]["placed"][0]["node"] = "n99"


def placed_with_other_devices(line: RecordedLine) -> None:
    found = next(placed for placed in line["volcano"]["placed"] if placed["annotations"])
    found["annotations"]["volcano.sh/vgpu-ids-new"] = "GPU-other,NVIDIA,1,0:"


def placed_in_another_order(line: RecordedLine) -> None:
    placed = line["volcano"]["placed"]
    placed[0], placed[-1] = placed[-1], placed[0]


def placed_less(line: RecordedLine) -> None:
    line["volcano"]["placed"].pop()


def in_another_phase(line: RecordedLine) -> None:
    phases = line["volcano"]["phases"]
    phases[min(phases)] = "Unknown"


@pytest.mark.parametrize(
    ("change", "aspect"),
    [
        (placed_elsewhere, NODES),
        (placed_with_other_devices, DEVICES),
        (placed_in_another_order, ORDER),
        (placed_less, PODS),
        (in_another_phase, PHASES),
    ],
)
@pytest.mark.parametrize("as_volcano", [False, True])
def test_a_difference_that_no_rule_explains_fails(write, capsys, change, aspect, as_volcano):
    line = recorded("sessions/vgpu_one_queue/989000")
    change(line)
    assert conformance([write(line)], as_volcano=as_volcano) == 1
    out = capsys.readouterr().out
    assert re.search(rf"^FAILED {line['id']} \(.*line 1; - recorded, \+ ours\)\n  {aspect}\n  - ", out, re.MULTILINE)
    assert out.splitlines()[-1] == "0 identical, 0 by rule, 1 failed"


def test_a_rule_explains_only_what_is_as_recorded_without_it(write, capsys):
    line = recorded("sessions/named/halves")
    assert conformance([write(line)]) == 0
    assert re.search(r"^borrowing +1 +deviceshare.BorrowingEnable", capsys.readouterr().out, re.MULTILINE)
    assert conformance([write(line)], as_volcano=True) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "1 identical, 0 by rule, 0 failed"
    placed_less(line)
    assert conformance([write(line)]) == 1


def test_as_volcano_a_group_that_cannot_start_keeps_its_promise():
    file = "sessions.jsonl.gz"
    by_rule = [each.case.id for each in replayed(file).outcomes if "promise-return" in each.verdict.rules]
    off = {each.case.id: each.verdict for each in as_volcano(file).outcomes}
    assert by_rule
    assert [name for name in by_rule if off[name].differences or off[name].rules] == []


def test_json(write, capsys):
    right, wrong = recorded("sessions/plain/989000"), recorded("sessions/nodes/989000")
    placed_elsewhere(wrong)
    assert conformance([write(right, wrong)], json=True) == 1
    found = json.loads(capsys.readouterr().out)["sessions"]
    assert (found["sessions"], found["failed"]) == (2, 1)
    assert [(each["id"], each["line"]) for each in found["failures"]] == [("sessions/nodes/989000", 2)]
    assert found["failures"][0]["differences"][0]["aspect"] == NODES


def test_cases_and_sessions_in_one_run(write, capsys):
    cases = ROOT / "tests" / "data" / "golden" / "gpushare-memory.jsonl.gz"
    assert conformance([cases, write(recorded("sessions/nodes/989000"))]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(re.fullmatch(r"\d+ passed, 0 failed", line) for line in lines)
    assert lines[-1] == "1 identical, 0 by rule, 0 failed"


def test_a_unit_test_with_another_expected_result_fails(write):
    line = recorded("two Jobs on one node", "sessions-unit.jsonl.gz")
    assert conformance([write(line)]) == 0
    line["binds"].popitem()
    assert conformance([write(line)]) == 1


def test_a_unit_test_that_cannot_be_replayed_is_counted(write, capsys):
    line = recorded("two Jobs on one node", "sessions-unit.jsonl.gz")
    line["evictnum"] = 1
    assert conformance([write(line, recorded("two Jobs on one node", "sessions-unit.jsonl.gz"))]) == 0
    assert "Not replayed: 1 unit tests with evictions" in capsys.readouterr().out


def test_an_invalid_configuration_is_a_failure(write, capsys):
    line = recorded("sessions/nodes/989000")
    line["conf"] = line["conf"].replace("actions:", "actions: 5 #")
    assert conformance([write(line, recorded("sessions/nodes/989001"))]) == 1
    out = capsys.readouterr().out
    assert "actions: '5' is not valid" in out
    assert "Identical in pods, nodes and devices: 1 of 2 sessions" in out
    assert out.splitlines()[-1] == "1 identical, 0 by rule, 1 failed"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"volcano": {"placed": 5}, "id": "x", "conf": ""}', "line 1: volcano.placed: Expected `array`, got `int`"),
        ('{"volcano": {}, "id": "x"}', "line 1: the line: Object missing required field `conf`"),
        ('{"volcano": {}, "id": "x", "conf": "", "nodes": [7]}', "line 1: nodes[0]: Expected `object`, got `int`"),
    ],
)
def test_invalid_line(write, text, message):
    with pytest.raises(CommandError, match=re.escape(message)):
        conformance([write(text)])
