"""Ledgers and outcomes of which only the changed items are decoded equal those that are decoded as a whole."""

import msgspec
import pytest
from deviceshare.model import Claim, ContainerGrant, DeviceGrant, Eviction, NodeLedger, NodeOutcomes, Outcome
from deviceshare_bus.messages import known_items, subjects
from deviceshare_bus.messages.codec import Message, decode_ledger, encode
from deviceshare_bus.messages.known_items import LEDGERS, OUTCOMES, KnownItems
from deviceshare_bus.messages.validation import InvalidMessageError, validated
from hypothesis import given
from hypothesis import strategies as st

GRANTS = (ContainerGrant("main", 0, "hami-core", (DeviceGrant("GPU-1", 0, 1024, 5),)),)
NODES = st.sampled_from(["n1", "n2", "n3"])
IDS = st.lists(st.integers(0, 9), max_size=8, unique=True)


def claim(number, **fields):
    return Claim(id=f"c{number}", uid=f"u{number}", namespace="space", name=f"p{number}", grants=GRANTS, **fields)


def received(subject, message):
    return Message(subject, 1, encode(message))


def decoder():
    return validated({"ledger": LEDGERS, "outcome": OUTCOMES}, lambda message, where, content: content)


@given(st.lists(st.tuples(NODES, IDS, st.booleans(), st.booleans()), max_size=12))
def test_a_ledger_is_what_it_is_decoded_as_a_whole(ledgers):
    decode = decoder()
    for node, ids, withdraw, gone in ledgers:
        claims = tuple(claim(number, withdraw=withdraw and number < 5) for number in ids)
        message = NodeLedger(node=node, claims=claims, gone=gone)
        found = decode(received(subjects.ledger(node), message))
        assert found == message == decode_ledger(encode(message))
        assert encode(found) == encode(message)


@given(st.lists(st.tuples(NODES, IDS, st.sampled_from(["bound", "refused"]), st.booleans()), max_size=12))
def test_outcomes_are_what_they_are_decoded_as_a_whole(messages):
    decode = decoder()
    for node, ids, state, gone in messages:
        outcomes = tuple(Outcome(f"c{number}", f"u{number}", state, "", float(number)) for number in ids)
        message = NodeOutcomes(node=node, outcomes=outcomes, gone=gone)
        found = decode(received(subjects.outcome(node), message))
        assert found == message
        assert encode(found) == encode(message)


def test_claims_and_outcomes_that_were_known_are_the_same_objects():
    decode = decoder()
    first = decode(received(subjects.ledger("n1"), NodeLedger(node="n1", claims=(claim(1), claim(2)))))
    changed = (claim(3), claim(2), claim(1, withdraw=True))
    second = decode(received(subjects.ledger("n1"), NodeLedger(node="n1", claims=changed)))
    assert second.claims == changed
    assert second.claims[1] is first.claims[1]
    one, two = Outcome("c1", "u1", "bound"), Outcome("c2", "u2", "bound")
    before = decode(received(subjects.outcome("n1"), NodeOutcomes(node="n1", outcomes=(one,))))
    after = decode(received(subjects.outcome("n1"), NodeOutcomes(node="n1", outcomes=(two, one))))
    assert after.outcomes[1] is before.outcomes[0]


def test_a_claim_that_is_there_twice_is_not_valid():
    with pytest.raises(InvalidMessageError, match="two claims have the same id"):
        decoder()(received(subjects.ledger("n1"), NodeLedger(node="n1", claims=(claim(1), claim(1)))))


def test_evictions_of_a_node_without_claims_are_read_and_each_pod_goes_once():
    eviction = Eviction(
        uid="u9", namespace="a", name="v", claim="c1", preemptor="a/b", action="preempt", decided_at=5.0, go=True
    )
    ledger = NodeLedger(node="n1", evictions=(eviction,))
    assert decoder()(received(subjects.ledger("n1"), ledger)) == ledger
    twice = NodeLedger(node="n1", evictions=(eviction, eviction))
    with pytest.raises(InvalidMessageError, match="two evictions name the same pod"):
        decoder()(received(subjects.ledger("n1"), twice))


def test_an_invalid_claim_changes_nothing():
    decode = decoder()
    before = decode(received(subjects.ledger("n1"), NodeLedger(node="n1", claims=(claim(1),))))
    wrong = {"node": "n1", "claims": [claim(1), {"id": 7}]}
    with pytest.raises(InvalidMessageError):
        decode(Message(subjects.ledger("n1"), 2, msgspec.msgpack.encode(wrong)))
    after = decode(received(subjects.ledger("n1"), NodeLedger(node="n1", claims=(claim(1), claim(2)))))
    assert after.claims[0] is before.claims[0]


def test_a_service_decodes_by_the_decoder_that_it_names():
    decode = validated({"ledger": lambda data: decode_ledger(data)}, lambda message, where, content: content)
    message = received(subjects.ledger("n1"), NodeLedger(node="n1", claims=(claim(1),)))
    assert decode(message) == decode(message)
    assert decode(message).claims[0] is not decode(message).claims[0], "a decoder without a memory"


@pytest.mark.parametrize(
    ("encoded", "whole"),
    [(known_items._EncodedLedger, NodeLedger), (known_items._EncodedOutcomes, NodeOutcomes)],
)
def test_no_field_of_a_message_is_dropped(encoded, whole):
    """The decoders name each field: a new one has to be added there."""
    assert encoded.__struct_fields__ == whole.__struct_fields__
    assert encoded.__struct_defaults__ == whole.__struct_defaults__
    lists = {"claims", "evictions"} if whole is NodeLedger else {"outcomes"}
    assert set(whole.__struct_fields__) == {"v", "node", "gone", *lists}


def raws(*items):
    return [msgspec.Raw(msgspec.msgpack.encode(item)) for item in items]


def test_what_is_remembered_is_bounded_and_leaves_with_its_node():
    decoded = []
    known = KnownItems(lambda data: decoded.append(data) or msgspec.msgpack.decode(data), lambda item: None, most=2)
    texts = ["aaaa", "bbbb"]
    for node in ("n1", "n2", "n1", "n2"):
        known.items(node, raws(texts[0]))
    assert len(decoded) == 2, "both fit"
    known.items("n3", raws(texts[1]))
    known.items("n2", raws(texts[0]))
    assert len(decoded) == 3, "the oldest was forgotten"
    known.items("n1", raws(texts[0]))
    assert len(decoded) == 4
    for node in ("n1", "n2", "n3"):
        known.items(node, [])
    assert known.items("n4", raws(*texts)) == tuple(texts)
    known.items("n4", raws(*texts))
    assert len(decoded) == 6, "there is room again"
