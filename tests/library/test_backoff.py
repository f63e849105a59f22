"""Pauses between retries: they grow to a limit, and no number of failures is too many."""

import pytest
from deviceshare.model import Backoff
from hypothesis import given
from hypothesis import strategies as st


def test_pauses_double_up_to_the_longest() -> None:
    assert [Backoff(0.5, 3.0).delay(attempt) for attempt in range(5)] == [0.5, 1.0, 2.0, 3.0, 3.0]
    assert [Backoff(1.0, 100.0, factor=10.0).delay(attempt) for attempt in range(4)] == [1.0, 10.0, 100.0, 100.0]
    assert Backoff(2.0, 2.0).delay(7) == 2.0


def test_jitter_is_a_share_of_the_pause() -> None:
    assert Backoff(0.5, 30.0).delay(1, 0.25) == 1.25
    assert Backoff(0.5, 30.0).delay(100, 1.0) == 60.0


@given(st.floats(1e-9, 1e9), st.floats(1e-9, 1e9), st.floats(1.01, 1e6), st.integers(0, 10**400))
def test_no_attempt_overflows(one: float, other: float, factor: float, attempt: int) -> None:
    backoff = Backoff(min(one, other), max(one, other), factor)
    assert backoff.first <= backoff.delay(attempt) <= backoff.delay(attempt + 1) <= backoff.most


@pytest.mark.parametrize("limits", [(0.0, 1.0, 2.0), (2.0, 1.0, 2.0), (1.0, 2.0, 1.0), (1.0, float("inf"), 2.0)])
def test_limits_that_make_no_sense_are_refused(limits: tuple[float, float, float]) -> None:
    with pytest.raises(ValueError, match="a back-off needs"):
        Backoff(*limits)
