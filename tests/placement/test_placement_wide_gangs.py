"""Gangs that span more nodes than one atomic batch may have messages."""

from deviceshare.model import GroupKey, PodGroupFact
from support.builders import card, node, pod, vgpu
from support.played import Played

LIMIT = 999


def whole_nodes(count: int) -> Played:
    """Return a core with nodes of one card of 100 MiB each."""
    return Played(*(node(f"n{at:04}", [card(0, memory=100, node=f"n{at:04}-")]) for at in range(count)))


def gang(played: Played, name: str, members: int, created: float = 0.0) -> None:
    """Put a gang in, each pod of which needs a node of its own."""
    played.put(PodGroupFact(key=GroupKey(f"ns/{name}"), uid=name, min_member=members, admitted=True, created=created))
    for at in range(members):
        played.put(pod(f"{name}{at}", vgpu(1, 100), gang=name, created=created))


def test_a_gang_that_spans_too_many_nodes_is_refused_with_its_reason_and_leaves_the_nodes_to_others() -> None:
    played = whole_nodes(LIMIT + 1)
    gang(played, "wide", LIMIT + 1)
    out = played.tick()
    assert out.writes == []
    assert set(played.tick().messages) | set(out.messages) == {
        "pod group ns/wide would span more than 999 nodes, which cannot be claimed together"
    }
    assert played.tick().writes == [], "it is not decided again for nothing"
    played.put(pod("single", vgpu(1, 100)))
    assert [claim.uid for claim in played.tick().claims] == ["uid-single"]


def test_a_gang_of_the_widest_possible_span_is_claimed_in_one_batch() -> None:
    played = whole_nodes(LIMIT)
    gang(played, "wide", LIMIT)
    (write,) = played.tick().writes
    assert len(write.writes) == LIMIT


def test_gangs_that_are_too_wide_only_together_are_claimed_one_after_the_other() -> None:
    played = whole_nodes(400 + 700)
    gang(played, "first", 400)
    gang(played, "second", 700, created=1.0)
    out = played.tick()
    (write,) = out.writes
    assert len(write.writes) == 400
    assert not [message for message in out.messages if "span" in message]
    played.written(out)
    (write,) = played.tick().writes
    assert {claim.group for each in write.writes for claim in each.message.claims} == {"ns/second"}
    assert len(write.writes) == 700
