"""Subjects: every node, pod and fact has its own, and a node is read from its subject."""

from zlib import crc32

import pytest
from deviceshare_bus.messages import subjects
from hypothesis import given
from hypothesis import strategies as st

NAMES = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?(\.[a-z0-9]{1,10}){0,3}", fullmatch=True)


@given(NAMES)
def test_the_node_of_a_subject_is_the_node_that_it_was_made_of(name) -> None:
    for subject, stream in ((subjects.ledger(name), "ledger"), (subjects.outcome(name), "outcome")):
        assert subject == f"{stream}.{crc32(name.encode()) % 64}.{name}"
        assert subjects.node_of(subject) == name


@given(st.text(max_size=50))
def test_a_partition_is_below_64(name) -> None:
    assert 0 <= subjects.partition(name) < 64


@pytest.mark.parametrize(
    ("found", "subject"),
    [
        (subjects.fact("podgroup", "ns/g.x"), "cluster.podgroup.ns.g.x"),
        (subjects.fact("node", "n1.example.com"), "cluster.node.n1.example.com"),
        (subjects.explain("u"), "explain.u"),
        (subjects.event("binder"), "event.binder"),
        (subjects.status(), "status.*"),
        (subjects.status("binder"), "status.binder"),
    ],
)
def test_the_form_of_subjects(found, subject) -> None:
    assert found == subject
