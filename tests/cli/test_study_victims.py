"""`deviceshare lab study victims`: our victims on random clusters, beside the best ones."""

import json

import pytest
from deviceshare_cli.main import app
from deviceshare_lab.studies.victims import comparison
from deviceshare_lab.studies.victims.comparison import ComparedCluster
from deviceshare_lab.studies.victims.random_cluster import EQUAL, KINDS
from typer.testing import CliRunner

ARGUMENTS = ["lab", "study", "victims", "--clusters", "8", "--jobs", "1"]


def test_all_clusters_of_each_kind_are_compared():
    done = CliRunner().invoke(app, [*ARGUMENTS, "--json"])
    assert done.exit_code == 0
    kinds = json.loads(done.output)["kinds"]
    assert {kind: numbers["clusters"] for kind, numbers in kinds.items()} == dict.fromkeys(KINDS, 8)
    assert all(0 < each["fewest"] <= 8 - each["without_answer"] for each in kinds.values())


def test_a_missed_answer_is_shown_and_fails(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(comparison, "compare", lambda seed, kind: ComparedCluster(seed, kind, None, (1, 10)))
    done = CliRunner().invoke(app, ARGUMENTS)
    assert done.exit_code == 1
    assert f"{EQUAL} 7: None, but (1, 10)" in done.output
