"""Warnings of the controllers of the local cluster: each problem once."""

import logging

import pytest
from deviceshare_localcluster.warn_once import MAX_REPORTED, WarnOnce


def test_a_problem_is_logged_once_until_too_many_are_remembered(caplog: pytest.LogCaptureFixture) -> None:
    warnings = WarnOnce()
    with caplog.at_level(logging.WARNING, "deviceshare.local_cluster"):
        warnings.warn("'soon' is not a duration", "Pod default/a")
        warnings.warn("'soon' is not a duration", "Pod default/b")
        assert [each.getMessage() for each in caplog.records] == ["Pod default/a: 'soon' is not a duration"]
        for number in range(MAX_REPORTED):
            warnings.warn(f"problem {number}")
        assert len(caplog.records) == MAX_REPORTED + 1
        warnings.warn("'soon' is not a duration")
    assert caplog.records[-1].getMessage() == "'soon' is not a duration", "all are forgotten, not more are kept"
