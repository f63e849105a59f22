"""Trials end in order, and close their logs whatever happens."""

import pytest
from deviceshare.state import Trial, UndoLog


class Amounts(dict[str, int]):
    """Amounts whose changes are logged."""

    def __init__(self) -> None:
        super().__init__()
        self.log = UndoLog()

    def add(self, name: str) -> None:
        self[name] = self.get(name, 0) + 1
        if self.log.entries is not None:
            self.log.entries.append((self.subtract, name))

    def subtract(self, name: str) -> None:
        self[name] -= 1


def fail() -> None:
    raise ZeroDivisionError


@pytest.mark.parametrize("end", [Trial.commit, Trial.roll_back])
def test_a_trial_is_not_ended_while_one_within_it_is_open(end):
    amounts, other = Amounts(), Amounts()
    with Trial(other.log, amounts.log) as outer:
        amounts.add("outer")
        with Trial(amounts.log) as inner:
            amounts.add("inner")
            with pytest.raises(RuntimeError, match="while one within it is open"):
                end(outer)
            assert amounts == {"outer": 1, "inner": 1}
            inner.commit()
        end(outer)
    assert amounts == ({"outer": 1, "inner": 1} if end is Trial.commit else {"outer": 0, "inner": 0})


def fail_to_undo(outer: Amounts, inner: Amounts) -> None:
    """End a trial that changes two things, and between them one that cannot be undone."""
    with Trial(outer.log, inner.log):
        outer.add("before")
        inner.add("before")
        inner.log.entries.append((fail,))
        inner.add("after")


def test_the_logs_are_closed_if_a_change_cannot_be_undone():
    amounts, other = Amounts(), Amounts()
    with pytest.raises(ZeroDivisionError):
        fail_to_undo(other, amounts)
    for each in (amounts, other):
        assert (each.log.entries, each.log.trials) == (None, 0)
    with Trial(amounts.log):
        amounts.add("later")
    assert amounts == {"before": 1, "after": 0, "later": 0}


def test_the_outer_trial_undoes_what_is_left_when_an_inner_one_cannot():
    amounts, other = Amounts(), Amounts()
    with pytest.raises(ZeroDivisionError), Trial(amounts.log):
        fail_to_undo(other, amounts)
    assert amounts == {"before": 0, "after": 0}
    assert amounts.log.entries is None
