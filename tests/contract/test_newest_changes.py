"""Of several changes to one object only the last is delivered, except changes that must not be dropped."""

import pytest
from deviceshare_cluster.changes import newest
from deviceshare_cluster.interface import Change, ChangeType, Listed


def change(word: str, kind: str = "Pod") -> Change | Listed:
    """Return a change from ``name=revision``, ``-name=revision`` for a deletion, ``|revision`` for a list."""
    if word.startswith("|"):
        return Listed(int(word[1:]))
    name, _, revision = word.removeprefix("-").partition("=")
    kind_of = ChangeType.DELETED if word.startswith("-") else ChangeType.APPLIED
    return Change(kind_of, kind, "default", name, int(revision), b"")


@pytest.mark.parametrize(
    ("happened", "expected"),
    [
        ("a=1 b=2 a=3 a=4", "b=2 a=4"),
        ("a=1 -a=2", "-a=2"),
        ("a=1 -a=2 a=3 a=4", "-a=2 a=4"),
        ("a=1 |1 a=2", "a=1 |1 a=2"),
        ("a=1 a=2 |2 b=3 b=4", "a=2 |2 b=4"),
        ("", ""),
    ],
)
def test_the_last_state_counts(happened: str, expected: str) -> None:
    assert newest([change(word) for word in happened.split()]) == [change(word) for word in expected.split()]


def test_objects_of_different_kinds_are_different() -> None:
    both = [change("a=1"), change("a=2", "Node")]
    assert newest(both) == both
