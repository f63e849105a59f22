"""Invalid messages are shown among the problems of their objects until they are replaced or deleted."""

import pytest
from deviceshare_bus.cores.core import ReadBack, Unreadable
from deviceshare_bus.messages import subjects
from support.metrics import NOW, read, snapshot_of
from support.metrics_messages import claim, explanation, ledger, node, only, outcome, pod


@pytest.mark.parametrize(
    ("stream", "valid"),
    [
        ("CLUSTER", node()),
        ("LEDGER", ledger(claim())),
        ("OUTCOME", outcome("bound")),
        ("CLUSTER", pod()),
        ("EXPLAIN", explanation()),
    ],
)
@pytest.mark.parametrize("end", ["replaced", "deleted"])
def test_an_invalid_message_is_a_problem_of_its_object(stream, valid, end):
    core = read(node(), pod())
    subject = valid[0]
    core.handle(Unreadable(stream, subject, 7, "the reason"), NOW)
    text = f"the message {subject} on the bus is not valid: the reason"
    shown = snapshot_of(core)
    about = shown.nodes if subject.endswith("n1") else shown.pods
    assert only(about).problems == (text,)
    assert core.store.invalid == {subject: "the reason"}
    if end == "deleted":
        core.handle(ReadBack(subject, 0), NOW)
    else:
        read(valid, into=core)
    assert core.store.invalid == {}


def test_an_invalid_message_of_event_is_no_problem_of_an_object():
    core = read(node())
    core.handle(Unreadable("EVENT", subjects.event("binder"), 7, "the reason"), NOW)
    assert core.store.invalid == {}
