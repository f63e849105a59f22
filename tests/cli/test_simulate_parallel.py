"""Runs of a simulation on several cores, and the progress bar on a terminal."""

import io
import sys
from math import factorial

import pytest
from deviceshare_cli.simulate.parallel import run_all


class Terminal(io.StringIO):
    """A text file that is a terminal."""

    def isatty(self) -> bool:
        """Return True."""
        return True


@pytest.mark.parametrize("jobs", [1, 2])
def test_results_have_the_order_of_the_tasks(jobs):
    assert run_all(factorial, [50_000, 3, 4], jobs)[1:] == [6, 24], "the first one ends last"


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_failure_of_a_run_is_raised(jobs):
    with pytest.raises(ValueError, match="negative"):
        run_all(factorial, [2, -1, 3], jobs)


def test_the_bar_on_a_terminal_names_the_task_that_ended(monkeypatch):
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    monkeypatch.setenv("TERM", "xterm")
    assert run_all(factorial, [4], 1, lambda task: f"factorial of {task}") == [24]
    assert "factorial of 4" in terminal.getvalue()
    assert "1/1" in terminal.getvalue()


def test_without_a_terminal_nothing_is_shown(capsys):
    assert run_all(factorial, [4], 1) == [24]
    assert capsys.readouterr() == ("", "")
