"""``deviceshare lab chaos --simulated``: a violation is shown with its seed and its shortest history."""

import os
from itertools import count
from unittest.mock import patch

import pytest
from deviceshare.scheduler import Scheduler
from deviceshare_cli.errors import CommandError
from deviceshare_cli.main import app as whole_app
from deviceshare_cli.replicas import parse_replicas
from deviceshare_lab.chaos.apart import ChildFailed, run_apart
from deviceshare_lab.chaos.app import app
from deviceshare_lab.chaos.command import Options, parse_faults, simulated
from deviceshare_lab.chaos.minimise import minimise
from deviceshare_lab.chaos.scenario import Scenario, Step
from deviceshare_lab.chaos.simulation import Played
from deviceshare_lab.checker import Violation
from typer import BadParameter
from typer.testing import CliRunner


def test_a_violation_ends_with_status_1_and_its_shortest_history(capsys):
    numbers, original = count(), Scheduler.new_claim

    def new_claim(self, claim_id, *arguments):
        return original(self, f"claim-{next(numbers) % 2}", *arguments)

    with patch.object(Scheduler, "new_claim", new_claim):
        assert simulated("7.0", 0.0, None, Options({"placement": 2}, ()), 1) == 1
    said = capsys.readouterr().out
    assert "seed 7.0: violation at" in said
    assert "claim ids are unique" in said
    assert "replicas: inventory=" in said
    assert "placement=2" in said
    assert said.splitlines()[-1].endswith("1 violations: seeds 7.0")


def test_a_history_without_violation_ends_with_status_0_and_the_same_output(capsys):
    found = []
    for _ in range(2):
        assert simulated("7.1", 0.0, None, Options({}, ()), 1) == 0
        found.append(capsys.readouterr())
    (summary,) = found[0].out.splitlines()
    assert summary.startswith("1 histories, ")
    assert summary.endswith(" 0 violations")
    assert found[0].out == found[1].out
    assert "s of CPU" in found[0].err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--simulated", "--minutes", "3"], "--minutes is not an option with --simulated"),
        (["--hours", "3"], "--hours is not an option without --simulated"),
        (["--size", "small"], "--size is not an option without --simulated"),
    ],
)
def test_options_of_the_other_mode_are_errors(arguments, message):
    result = CliRunner().invoke(app, arguments)
    assert isinstance(result.exception, CommandError)
    assert str(result.exception) == message


@pytest.mark.parametrize(
    ("arguments", "message"), [(["--kinds", "flood"], "there is no fault flood"), (["--seed", "x"], "--seed 'x'")]
)
def test_options_of_real_faults_that_cannot_be_used_are_errors(arguments, message):
    result = CliRunner().invoke(app, arguments)
    assert isinstance(result.exception, CommandError)
    assert message in str(result.exception)


def test_a_child_process_returns_the_result_or_the_error():
    assert run_apart(divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        run_apart(divmod, 7, 0)
    with pytest.raises(ChildFailed, match="status 3"):
        run_apart(os._exit, 3)


def test_a_fault_is_removed_with_its_end():
    steps = [Step(float(at), "pod", (at,)) for at in range(20)]
    steps += [
        Step(30.0, "+crash-bus"),
        Step(31.0, "+kill", ("a",)),
        Step(32.0, "-crash-bus"),
        Step(33.0, "-kill", ("a",)),
    ]
    played = []

    def play(scenario):
        played.append(scenario)
        actions = [step.action for step in scenario.steps]
        broken = Step(7.0, "pod", (7,)) in scenario.steps and "+kill" in actions
        assert ("+kill" in actions) == ("-kill" in actions)
        return Played(scenario, "", 0.0, Violation("rule", f"claim {len(played)} of 7; more", 1.0) if broken else None)

    found = play(Scenario("1", {}, {}, tuple(steps)))
    shortest = minimise(found, play)
    assert [str(step.action) for step in shortest.scenario.steps] == ["pod", "+kill", "-kill"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("placement=0", "inventory, placement, binder as services and counts from 1 to 9"),
        ("placement=1000", "inventory, placement, binder as services and counts from 1 to 9"),
        (f"placement={'9' * 5000}", "counts from 1 to 9"),
        ("binder=²", "counts from 1 to 9"),
        ("web=2", "inventory, placement, binder as services"),
        ("metrics=2", "metrics has one process, serving the page"),
        ("placement=3,placement=2", "placement is given twice"),
    ],
)
def test_wrong_replicas_are_wrong_usage(text, reason):
    for command in (["up", "--cluster", "local:."], ["lab", "bench", "bus"], ["lab", "chaos"]):
        done = CliRunner().invoke(whole_app, [*command, "--replicas", text])
        assert (done.exit_code, reason in done.stderr) == (2, True), done.output


def test_options():
    assert parse_replicas("placement=3,binder=2") == {"placement": 3, "binder": 2}
    for wrong in ("placement", "placement=0", "other=1", "binder=x"):
        with pytest.raises(BadParameter, match="--replicas"):
            parse_replicas(wrong)
    assert parse_faults("kill,cut") == ("kill", "cut")
    assert "roll-back" in parse_faults("all")
    with pytest.raises(CommandError, match="there is no nothing"):
        parse_faults("nothing")
