"""Revisions as numbers."""

import pytest
from deviceshare.model import revision_number


@pytest.mark.parametrize(
    ("revision", "number"),
    [("", 0), ("0", 0), ("7001", 7001), ("18446744073709551615", 2**64 - 1), ("-1", 0), ("12x", 0), ("²", 0)],
)
def test_the_number_of_a_revision(revision, number):
    assert revision_number(revision) == number


def test_more_digits_than_python_converts_are_no_number():
    assert revision_number("9" * 10_000) == 0
