"""`deviceshare lab conformance` on recorded preemption: who goes is allowed, enough, and as few as can be."""

import gzip
import json
from collections import Counter
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from deviceshare_cli.errors import CommandError
from deviceshare_lab.conformance.command import conformance
from deviceshare_lab.conformance.preemption import unit_tests
from deviceshare_lab.conformance.preemption.command import (
    MAX_MORE,
    MIN_COUNT,
    MIN_SUM,
    PreemptionSummary,
    as_text,
    summarize,
)
from deviceshare_lab.conformance.preemption.judge import forbidden
from deviceshare_lab.conformance.preemption.player import Preempted, PreemptingPlayer
from deviceshare_lab.conformance.preemption.recorded import Case
from deviceshare_lab.conformance.preemption.replay import ALLOWED, ALWAYS, COUNT, FITS, PLACED, SERVED, SUM, replay
from deviceshare_lab.conformance.sessions.facts import decode
from deviceshare_lab.conformance.sessions.player import NOW
from deviceshare_lab.conformance.sessions.rules import with_arguments
from msgspec import convert
from msgspec.structs import replace

DATA = Path(__file__).parents[1] / "data" / "preemption" / "preempt.jsonl.gz"
UNIT_TESTS = DATA.with_name("preempt-unit.jsonl.gz")
GROUP = "scheduling.k8s.io/group-name"
RECLAIM = ("reclaim", "gangreclaim")

RecordedLine = dict[str, Any]


@cache
def replayed() -> PreemptionSummary:
    return summarize([DATA])


@cache
def lines() -> dict[str, RecordedLine]:
    return {case["id"].removeprefix("preempt/"): case for case in map(json.loads, gzip.open(DATA))}


def case(name: str) -> Case:
    return convert(lines()[name], Case)


def volcanos(recorded: Case, line: RecordedLine) -> list[Preempted]:
    """Return Volcano's own victims, those of each group together."""
    group_of = {
        f"{pod['metadata']['namespace']}/{pod['metadata']['name']}": "ns/" + pod["metadata"]["annotations"][GROUP]
        for pod in recorded.pods or ()
    }
    by_group: dict[tuple[str, str], list[str]] = {}
    for each in line["volcano"].get("evicted", ()):
        action = "reclaim" if each["action"] in RECLAIM else "preempt"
        by_group.setdefault((group_of[each["preemptor"]], action), []).append(each["pod"])
    placed = {each.pod for each in recorded.volcano.placed}
    return [
        Preempted(group, action, tuple(pods), tuple(pod for pod in placed if group_of[pod] == group))
        for (group, action), pods in by_group.items()
    ]


def test_all_that_can_be_placed_is_and_no_victim_is_protected():
    summary = replayed()
    assert len(summary.outcomes) == 227
    text = as_text(summary, verbose=True)
    assert summary.same(PLACED, ALLOWED, FITS, SERVED) == len(summary.outcomes), text
    assert not summary.fails


def test_nearly_always_the_fewest_pods_of_the_lowest_priorities_go():
    summary = replayed()
    text = as_text(summary, verbose=True)
    assert summary.percent_same(COUNT) >= MIN_COUNT >= 99, text
    assert summary.percent_same(COUNT, SUM) >= MIN_SUM >= 97, text
    assert max(each.verdict.more for each in summary.outcomes) <= MAX_MORE <= 1, text


def gentle(line: RecordedLine) -> Case | None:
    """Return a case with one job whose best victims are those of kube-scheduler's order, None if it has others."""
    jobs = [each for each in line["best"]["jobs"] if each["victims"]]
    if len(jobs) != 1 or "strict" in line or "gentle" not in jobs[0]:
        return None
    wanted = jobs[0]["gentle"]
    best = line["best"] | {name: wanted[name] for name in ("victims", "count", "sum")}
    return convert(line | {"best": best}, Case)


def test_by_kube_schedulers_order_the_highest_priority_counts_first():
    # This order was searched without gangs that go whole.
    order = {"deviceshare.PreemptionVictims": "lowest", "deviceshare.PreemptionGangEnable": False}
    found = [each for each in map(gentle, lines().values()) if each is not None]
    verdicts = {each.id: replay(each, order) for each in found}
    differing = {name: each.differences for name, each in verdicts.items() if not each.same(PLACED, SERVED, COUNT, SUM)}
    assert len(found) > 130
    assert not differing
    assert sum(bool(replay(each).differences) for each in found if each.kind == "named") >= 2


def test_the_recorded_clusters_have_victims_of_all_kinds():
    kinds = Counter(each.case.kind for each in replayed().outcomes if each.case.wanted.victims)
    assert {
        "named",
        "gang_victims",
        "pdb",
        "mig",
        "ascend",
        "gpu_number",
        "reclaim",
        "reclaim_capacity",
    } <= kinds.keys()
    assert kinds.total() > 150


def test_the_judge_finds_what_is_recorded_of_volcanos_victims():
    """Where a listed plugin protects one of Volcano's victims the judge says so, elsewhere only that gangs are torn."""
    wrong, found, others = set(), set(), []
    for name, line in lines().items():
        recorded = convert(line, Case)
        texts = forbidden(recorded, volcanos(recorded, line), NOW)
        if line["judged"].get("wrong"):
            wrong.add(name)
        if texts and name in wrong:
            found.add(name)
        elif texts and not all("fewer than its minimum" in text for text in texts):
            others.append(name)
    assert found == wrong
    assert len(wrong) == 16
    # Volcano looks at cards in turn; the queue was above what it deserves only before the first of them.
    assert others == ["named/useless-victims-reclaim"]


def changed(name: str, change: Any) -> Case:
    line = deepcopy(lines()[name])
    change(line)
    return convert(line, Case)


def more_victims(line: RecordedLine) -> None:
    line["best"] |= {"count": line["best"]["count"] - 1}


def higher_sum(line: RecordedLine) -> None:
    line["best"] |= {"sum": line["best"]["sum"] - 1}


def more_placed(line: RecordedLine) -> None:
    line["best"] |= {"placed": [*line["best"]["placed"], "ns/v01-t0-0"]}


def none_placed(line: RecordedLine) -> None:
    line["best"] |= {"placed": []}


@pytest.mark.parametrize(
    ("change", "aspect"),
    [(more_victims, COUNT), (higher_sum, SUM), (more_placed, PLACED), (none_placed, PLACED)],
)
def test_another_answer_than_the_best_is_a_difference(change, aspect):
    assert not replay(case("named/cheap-node")).differences
    assert aspect in {each.aspect for each in replay(changed("named/cheap-node", change)).differences}


def test_a_victim_too_many_in_most_cases_is_a_failure(tmp_path, capsys):
    path = tmp_path / "some.jsonl"
    line = deepcopy(lines()["named/cheap-node"])
    path.write_text(json.dumps(line))
    assert conformance([path]) == 0
    assert "count: 1 of 1 cases (100.0 %)" in capsys.readouterr().out
    more_victims(line)
    path.write_text(json.dumps(line))
    assert conformance([path], json=True) == 1
    report = json.loads(capsys.readouterr().out)["preemption"]
    assert report["failed"]
    assert (report["cases"], report["same"][COUNT], report["same"][PLACED]) == (1, 0, 1)


def test_an_invalid_line_is_named(tmp_path):
    path = tmp_path / "some.jsonl"
    line = lines()["named/cheap-node"] | {"best": {"count": "x"}}
    path.write_text(json.dumps(line))
    with pytest.raises(CommandError, match=r"line 1: best.count"):
        conformance([path])


# Volcano's tiers, and its unit tests


@pytest.mark.parametrize(
    "name",
    [
        "named/critical-by-drf", "named/below-deserved", "named/below-deserved-one-tier", "drf/700001", "drf/700003",
        "drf/700004", "drf/700005", "drf/700007",
    ],
)  # fmt: skip
def test_by_volcanos_tiers_pods_of_the_same_jobs_go(name):
    recorded, line = case(name), lines()[name]
    facts = decode(recorded)
    off = {"deviceshare.PreemptionTierEnable": False, "deviceshare.PreemptionGangEnable": False}
    player = PreemptingPlayer(replace(facts, conf=with_arguments(facts.conf, ALWAYS | off)), recorded.pdbs)
    player.run()
    group_of = {
        f"{pod['metadata']['namespace']}/{pod['metadata']['name']}": pod["metadata"]["annotations"][GROUP]
        for pod in recorded.pods or ()
    }
    ours = [group_of[victim] for each in player.preempted for victim in each.victims]
    assert sorted(ours) == sorted(group_of[each["pod"]] for each in line["volcano"]["evicted"])


@pytest.mark.parametrize(
    ("as_volcano", "rules"),
    [(True, {"deserved-in-all": 2}), (False, {"deserved-in-all": 2, "gangs": 1})],
)
def test_in_volcanos_unit_tests_the_same_pods_are_evicted(as_volcano, rules):
    summary = unit_tests.summarize([UNIT_TESTS], as_volcano=as_volcano)
    assert not summary.failures
    assert dict(summary.rules) == rules
    assert summary.identical + summary.rules.total() == len(summary.outcomes) == 77 - 5
    assert sum(summary.out_of_reach.values()) == 5


def test_another_victim_than_that_of_a_unit_test_is_a_failure(tmp_path, capsys):
    tests = list(map(json.loads, gzip.decompress(UNIT_TESTS.read_bytes()).splitlines()))
    path = tmp_path / "some.jsonl"
    line = next(test for test in tests if test["name"].startswith("preempt low priority job in same queue but not pod"))
    path.write_text(json.dumps(line))
    assert conformance([path]) == 0
    assert "Evictions of unit tests: 1 identical, 0 by rule, 0 failed" in capsys.readouterr().out
    path.write_text(json.dumps(line | {"evicts": ["c1/preemptee1"]}))
    assert conformance([path], json=True) == 1
    report = json.loads(capsys.readouterr().out)["evictions"]
    assert (report["identical"], len(report["failures"])) == (0, 1)
