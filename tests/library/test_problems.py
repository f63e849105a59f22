"""Texts of errors."""

import pytest
from deviceshare.model import describe_error


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (OSError("no route"), "no route"),
        (TimeoutError(), "no answer in time"),
        (TimeoutError("later"), "later"),
        (ConnectionResetError(), "ConnectionResetError"),
        (ValueError(" "), "ValueError"),
    ],
)
def test_every_error_has_a_text(error, text):
    assert describe_error(error) == text
