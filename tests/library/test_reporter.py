"""What is published of waiting pods: what an explanation says beside its message counts as well."""

from types import SimpleNamespace

import pytest
from deviceshare.model import PENDING, Explanation, Refusal
from deviceshare.scheduler.records import PodRecord
from deviceshare.scheduler.reporter import INTERVAL, Reporter
from msgspec.structs import replace
from support.builders import pod

SHORT = Refusal(code="CardInsufficientMemory", text="lack memory", nodes=2, asked=700, unit="MiB", needed=1)
FOUND = Explanation(
    uid="uid-w", namespace="ns", name="w", at=0.0, decision=PENDING, message="it waits", kept_for=("ns/first",),
    first_failing=(replace(SHORT, free_by_model=(("A100", 600),)),),
)  # fmt: skip


@pytest.mark.parametrize(
    ("change", "published"),
    [
        ({}, False),
        ({"at": 5.0}, False),
        ({"kept_for": ("ns/second",)}, True),
        ({"first_failing": (replace(SHORT, free_by_model=(("A100", 650),)),)}, False),
        ({"first_failing": (replace(SHORT, free_by_model=(("A100", 1200),)),)}, True),
    ],
)
def test_an_explanation_is_published_again_if_it_says_something_else(change, published):
    reporter, pods = Reporter(), {"uid-w": PodRecord(pod("w"), SimpleNamespace(), (), 0.0)}
    reporter.put(FOUND)
    assert reporter.take(pods, 0.0) == [FOUND]
    changed = replace(FOUND, **change)
    reporter.put(changed)
    assert reporter.take(pods, INTERVAL) == ([changed] if published else [])
