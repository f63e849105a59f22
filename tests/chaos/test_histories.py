"""Random histories with all faults: no rule is broken."""

import os
from collections import Counter

import pytest
from deviceshare_lab.chaos.command import Options, simulated
from deviceshare_lab.chaos.faults import FAULTS
from deviceshare_lab.chaos.scenario import Scenario, Step
from deviceshare_lab.chaos.simulation import draw, play

HISTORIES = int(os.environ.get("DEVICESHARE_CHAOS_HISTORIES", "200"))


@pytest.mark.timeout(1800)
def test_no_rule_is_broken(capsys):
    status = simulated("1", 0.0, HISTORIES, Options({}, None), os.cpu_count() or 1)
    said = capsys.readouterr().out
    assert status == 0, said
    assert said.splitlines()[-1].endswith(" 0 violations")


def test_every_history_has_a_fault_and_every_fault_some_histories():
    histories = Counter()
    for number in range(200):
        faults = {step.action.lstrip("+") for step in draw(f"1.{number}").steps} & FAULTS.keys()
        assert faults
        histories.update(faults)
    assert min(histories[fault] for fault in FAULTS) >= 4, histories


def test_a_replica_whose_reader_of_the_cluster_lags_removes_no_live_claim():
    slow = "placement/1", "CLUSTER", 25.0
    pods = [Step(4.0, "pod", (f"pod-{number}", "gpu-share", 0, "default", 0.0)) for number in range(4)]
    steps = (Step(2.0, "+slow-reader", slow), *pods, Step(30.0, "-slow-reader", slow))
    replicas = {"inventory": 1, "placement": 2, "binder": 1, "metrics": 1}
    played = play(Scenario("lag", {"node-0": "gpu-share", "node-1": "gpu-number"}, replicas, steps))
    assert played.violation is None
    assert "LEDGER" in played.text
