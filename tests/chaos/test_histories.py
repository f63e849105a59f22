"""Random histories with all faults: no rule is broken."""

import os
import re
from collections import Counter
from unittest.mock import patch

import pytest
from deviceshare.scheduler import preempting
from deviceshare_lab.chaos.command import Options, simulated
from deviceshare_lab.chaos.faults import FAULTS
from deviceshare_lab.chaos.scenario import Scenario, Step
from deviceshare_lab.chaos.simulation import Played, draw, play
from deviceshare_lab.chaos.workload import PRIORITIES

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


@pytest.mark.parametrize(("fault", "arguments"), [("kill", ("inventory/0",)), ("small-payload", (300,))])
def test_a_bound_pod_that_the_cluster_stream_lost_keeps_its_claim(fault, arguments):
    """The facts of the pods are lost, ``cluster.synced`` is not, and inventory cannot publish them for a minute."""
    lost = "CLUSTER", 10
    steps = (
        *(Step(2.0, "pod", (f"pod-{number}", "gpu-share", 0, "default", 0.0)) for number in range(2)),
        Step(4.5, f"+{fault}", arguments),
        Step(6.0, "+roll-back", lost),
        Step(6.5, "-roll-back", lost),
        Step(60.0, f"-{fault}", arguments),
    )
    replicas = {"inventory": 1, "placement": 1, "binder": 1, "metrics": 1}
    played = play(Scenario("rb", {"node-0": "gpu-share", "node-1": "gpu-number"}, replicas, steps))
    assert played.violation is None
    assert "lost 10 writes" in played.text


@pytest.mark.parametrize("emptied", [("CLUSTER",), ("CLUSTER", "LEDGER")])
def test_nothing_is_decided_while_a_new_stream_of_the_cluster_lacks_a_bound_pod(emptied):
    """The messages of pods are too large for the bus when its streams are emptied."""
    small = (300,)
    steps = (
        *(Step(0.0, "pod", (f"pod-{number}", "gpu-number", 0, "default", 0.0)) for number in range(2)),
        Step(4.0, "+small-payload", small),
        *(Step(6.0, "empty-stream", (stream,)) for stream in emptied),
        Step(30.0, "pod", ("late", "gpu-number", 0, "default", 0.0)),
        Step(90.0, "-small-payload", small),
    )
    replicas = {"inventory": 1, "placement": 1, "binder": 1, "metrics": 1}
    assert play(Scenario("n106", {"node-0": "gpu-number", "node-1": "gpu-share"}, replicas, steps)).violation is None


def nominated_then(*others: tuple[str, str]) -> Played:
    """Play a history in which a pod goes for one of higher priority, and others come before it has gone."""
    low = [Step(1.0, "pod", (f"low-{number}", "gpu-number", 0, "default", 0.0, "", 0, 20.0)) for number in range(2)]
    later = [("mid", "low"), *others]
    steps = (
        *(Step(0.0, "priority", (name, value)) for name, value in PRIORITIES.items() if name),
        *low,
        *(
            Step(20.0 + at, "pod", (name, "gpu-number", 0, "default", 0.0, level, 0))
            for at, (name, level) in enumerate(later)
        ),
    )
    replicas = {"inventory": 1, "placement": 2, "binder": 1, "metrics": 1}
    return play(Scenario("taken", {"node-0": "gpu-number"}, replicas, steps, preempts=True))


def test_a_pod_of_higher_priority_takes_nominated_room():
    played = nominated_then(("high-0", "high"), ("high-1", "high"))
    assert played.violation is None
    assert len(re.findall(r"default/low-\d goes for \S+ instead of", played.text)) == 1
    assert len(re.findall(r": Pod default/low-\d terminates", played.text)) == 2
    bound = re.findall(r": bound Pod default/(\S+)", played.text)
    assert sorted(bound[-2:]) == ["high-0", "high-1"]
    assert "mid" not in bound


def test_room_that_is_taken_by_a_pod_of_the_same_priority_is_found():
    def bug(preemptor, nominations):
        return [each for each in nominations if preemptor.group.key not in each.groups]

    with patch.object(preempting, "lower_nominations", bug):
        played = nominated_then(("same-0", "low"), ("same-1", "low"))
    assert played.violation is not None
    assert played.violation.rule == "pods of higher priority take nominated room"
