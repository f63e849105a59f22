"""The answers that were recorded from kube-scheduler's plugins, replayed as ``deviceshare lab conformance`` does."""

import gzip
from functools import cache
from pathlib import Path

import msgspec
from deviceshare_lab.conformance.command import conformance, kind_of
from deviceshare_lab.conformance.kube_scheduler.command import MAX_PERCENT, PluginSummary, summarize
from deviceshare_lab.conformance.kube_scheduler.replay import INVALID_POD, NEGATIVE_SELECTOR

FILE = Path(__file__).parents[1] / "data/kube-scheduler/kube-scheduler.jsonl.gz"


@cache
def replayed() -> PluginSummary:
    return summarize([FILE])


def test_all_answers_are_as_recorded_or_differ_by_a_rule() -> None:
    summary = replayed()
    assert len(summary.outcomes) == 528
    assert summary.failures == []
    assert 0 < summary.share <= MAX_PERCENT


def test_a_rule_explains_only_cases_that_hang_on_it() -> None:
    explained = [outcome for outcome in replayed().outcomes if outcome.verdict.rules]
    by_selector = [each.case for each in explained if each.verdict.rules == (NEGATIVE_SELECTOR,)]
    assert len(by_selector) == 7
    assert all("decided-by-negative-namespaceSelector" in case.tags for case in by_selector)
    invalid = [each.case for each in explained if each.verdict.rules == (INVALID_POD,)]
    assert len(invalid) == 2
    assert all('"topologyKey":""' in msgspec.json.encode(case.pod).decode() for case in invalid)


def test_the_command_prints_the_comparison(tmp_path, capsys) -> None:
    first = tmp_path / "first.jsonl"
    first.write_bytes(b"".join(gzip.decompress(FILE.read_bytes()).splitlines(keepends=True)[:100]))
    assert kind_of(FILE) == kind_of(first) == "kube_scheduler"
    assert conformance([first]) == 0
    assert " 0 failed" in capsys.readouterr().out
