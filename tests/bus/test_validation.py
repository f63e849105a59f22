"""Every message is checked against its subject and its version before a core sees it."""

import msgspec
import pytest
from deviceshare.model import (
    WAITING_VERSION,
    Claim,
    DeviceClaim,
    Eviction,
    Gone,
    NodeFact,
    NodeLedger,
    NodeOutcomes,
    PodFact,
    PodGroupFact,
)
from deviceshare_binder.service import decoder as binder_decoder
from deviceshare_bus.cores.core import Event
from deviceshare_bus.messages.codec import encode
from deviceshare_bus.messages.leases import Fence, Lease
from deviceshare_bus.messages.subjects import (
    Address,
    Stream,
    address,
    explain,
    fact,
    fence,
    lease,
    ledger,
    outcome,
    partition,
)
from deviceshare_bus.messages.validation import InvalidMessageError
from deviceshare_inventory.service import decode_message as decode_for_inventory
from deviceshare_metrics.decoding import decode as decode_for_metrics
from deviceshare_placement.decoding import decode as decode_for_placement
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from support.hostile import BASES, SUBJECTS, contents, message

DECODERS = {
    "placement": decode_for_placement,
    "metrics": decode_for_metrics,
    "inventory": decode_for_inventory,
    "binder": binder_decoder(),
}
CLUSTER_ONLY = {"inventory"}


def reasons(subject: str, data: bytes) -> set[str]:
    """Return why the services refuse a message; all services that decode it must."""
    found = set()
    for service, decode in DECODERS.items():
        if service in CLUSTER_ONLY and not subject.startswith("cluster."):
            continue
        with pytest.raises(InvalidMessageError) as error:
            decode(message(subject, data))
        found.add(str(error.value))
    return found


@pytest.mark.parametrize(
    ("subject", "content", "reason"),
    [
        (ledger("n1"), NodeLedger(node="n2"), "node: 'n2' is not 'n1', as in its subject"),
        (f"ledger.{(partition('n1') + 1) % 64}.n1", NodeLedger(node="n1"), "its subject is not valid"),
        (f"outcome.{(partition('n1') + 1) % 64}.n1", NodeOutcomes(node="n1"), "its subject is not valid"),
        (fact("node", "n1"), NodeFact(name="n2"), "name: 'n2' is not 'n1', as in its subject"),
        (fact("pod", "u1"), PodFact(uid="u2", namespace="a", name="b"), "uid: 'u2' is not 'u1', as in its subject"),
        (fact("podgroup", "a/b"), PodGroupFact(key="a/c"), "key: 'a/c' is not 'a/b', as in its subject"),
        (ledger("n1"), {"v": 3, "node": 5}, "v: its version is 3, expected 1 to 2"),
        (ledger("n1"), {"v": 3, "node": "n1", "claims": []}, "v: its version is 3, expected 1 to 2"),
        (ledger("n1"), {"v": 0, "node": "n1"}, "v: its version is 0, expected 1 to 2"),
        (outcome("n1"), {"v": 2, "node": "n1"}, "v: its version is 2, expected 1"),
        (fact("pod", "u1"), {"v": 3, "kind": "other"}, "v: its version is 3, expected 1"),
        (fact("pod", "u1"), {"v": 2, "kind": "gone"}, "v: its version is 2, expected 1"),
        (
            ledger("n1"),
            NodeLedger(node="n1", claims=tuple(Claim(id="c", uid=u, namespace="a", name="b") for u in "xy")),
            "two claims have the same id",
        ),
    ],
)
def test_invalid_messages(subject, content, reason):
    services = {"inventory"} if subject.startswith(("ledger", "outcome")) else {"placement"}
    for service in DECODERS.keys() - services:
        if service == "inventory":
            continue
        with pytest.raises(InvalidMessageError) as error:
            DECODERS[service](message(subject, msgspec.msgpack.encode(content)))
        assert str(error.value) == reason
        assert error.value.newer is ("version is 2" in reason or "version is 3" in reason)


CLAIM = Claim(id="c1", uid="u1", namespace="a", name="b")
WAITING = NodeLedger(node="n1", claims=(structs.replace(CLAIM, waits_for=("u2",)),))
EVICTING = NodeLedger(
    node="n1", evictions=(Eviction(uid="u2", namespace="a", name="c", claim="c1", preemptor="a/b", action="preempt"),)
)
WITH_DEVICES = NodeLedger(node="n1", claims=(structs.replace(CLAIM, devices=(DeviceClaim("a/gpu"),)),))


@pytest.mark.parametrize("content", [WAITING, EVICTING, WITH_DEVICES])
def test_a_service_that_knows_no_waiting_claims_pauses_the_node_and_replaces_nothing(content, monkeypatch):
    """The rule of the earlier version: a message of another version than 1 is invalid, and newer if it is later."""
    data = message(ledger("n1"), encode(content.sent(5.0)))
    for service in ("placement", "binder", "metrics"):
        assert DECODERS[service](data) is not None
    monkeypatch.setattr("deviceshare_bus.messages.validation.LATER_VERSIONS", {})
    for service in ("placement", "binder", "metrics"):
        with pytest.raises(InvalidMessageError, match="its version is 2, expected 1") as error:
            DECODERS[service](data)
        assert error.value.newer


@pytest.mark.parametrize("content", [WAITING, EVICTING, WITH_DEVICES])
def test_a_ledger_without_waiting_claims_and_evictions_is_of_the_earlier_version(content, monkeypatch):
    assert msgspec.msgpack.decode(encode(content))["v"] == WAITING_VERSION == 2
    ended = structs.replace(content, claims=(CLAIM,), evictions=())
    monkeypatch.setattr("deviceshare_bus.messages.validation.LATER_VERSIONS", {})
    assert "v" not in msgspec.msgpack.decode(encode(ended))
    for service in ("placement", "binder", "metrics"):
        assert DECODERS[service](message(ledger("n1"), encode(ended))) is not None


@pytest.mark.parametrize("subject", [each for each in BASES if each != "cluster.pod.u3"])
def test_a_message_of_another_kind_of_object_is_invalid(subject):
    for other, content in BASES.items():
        if other.split(".")[:2] == subject.split(".")[:2] or (
            isinstance(content, Gone) and subject != "cluster.synced"
        ):
            continue
        for service, decode in DECODERS.items():
            try:
                assert decode(message(subject, encode(content))) is None, (service, subject, other)
            except InvalidMessageError:
                continue


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xc1",
        b"\x81\xa4node\xa2\xff\xff",  # no UTF-8
        b"\x81\xa1z" + b"\x91" * 100_000 + b"\x00",  # nested too deeply
        b"\x82\xa4node\xa2n1\xa6claims\x91" + b"\x91" * 100_000 + b"\x00",
    ],
)
def test_what_no_decoder_can_read_is_invalid_too(data):
    assert reasons(ledger("n1"), data)


@pytest.mark.parametrize("number", [2**53 + 1, -(2**53) - 1, 2**63, 2**64 - 1])
def test_numbers_that_may_overflow_are_invalid(number):
    grants = [["main", 0, "hami-core", [["GPU-0", 0, number, 5]]]]
    claim = {"id": "c", "uid": "u", "namespace": "a", "name": "b", "grants": grants}
    assert reasons(ledger("n1"), msgspec.msgpack.encode({"node": "n1", "claims": [claim]}))
    node = {"kind": "node", "name": "n1", "allocatable": {"cpu": number}}
    for service in ("placement", "metrics", "inventory"):
        with pytest.raises(InvalidMessageError):
            DECODERS[service](message(fact("node", "n1"), msgspec.msgpack.encode(node)))


@pytest.mark.parametrize("subject", list(BASES))
def test_valid_messages_are_valid_for_every_service(subject):
    for decode in DECODERS.values():
        assert isinstance(decode(message(subject, encode(BASES[subject]))), Event | None)


names = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,10}[a-z0-9])?(\.[a-z0-9]{1,5}){0,2}", fullmatch=True)


@given(names)
def test_subjects_are_read_as_they_are_written(name):
    assert address(ledger(name)) == Address("ledger", name)
    assert address(outcome(name)) == Address("outcome", name)
    assert address(explain(name)) == Address("explain", name)
    for kind in ("node", "pod", "priorityclass", "queue", "config"):
        assert address(fact(kind, name)) == Address(kind, name)
    assert address(fact("podgroup", f"default/{name}")) == Address("podgroup", f"default/{name}")


@given(SUBJECTS)
def test_a_subject_has_one_form(subject):
    found = address(subject)
    match found:
        case None:
            assert subject not in BASES
        case ("ledger" | "outcome" as kind, key):
            assert subject == f"{kind}.{partition(key)}.{key}"
        case ("explain" | "event" as kind, key):
            assert subject == f"{kind}.{key}"
        case ("synced", _):
            assert subject == "cluster.synced"
        case (kind, key):
            assert subject == fact(kind, key)


@given(contents())
def test_a_message_is_invalid_or_about_the_object_of_its_subject(hostile):
    subject, data = hostile
    for service, decode in DECODERS.items():
        try:
            event = decode(message(subject, data))
        except InvalidMessageError:
            continue
        if event is None:
            continue
        where = address(subject)
        assert where is not None
        for field in ("node", "name", "uid", "key"):
            if isinstance(value := getattr(event, field, None), str):
                assert value == where.key, service
        for content in (getattr(event, name, None) for name in ("fact", "ledger", "outcomes", "explanation", "events")):
            if isinstance(content, msgspec.Struct):
                assert content.v == 1


def test_the_replicas_of_other_services_do_not_concern_a_service():
    streams = {Stream.CLUSTER: "inventory", Stream.LEDGER: "placement", Stream.OUTCOME: "binder"}
    for stream, owner in streams.items():
        for content in (Lease(service=owner, member="m", instance="i"), Fence(service=owner, member="m")):
            subject = (lease if isinstance(content, Lease) else fence)(stream, owner, "m")
            for service in ("placement", "binder", "inventory"):
                event = DECODERS[service](message(subject, encode(content)))
                assert (event is not None) == (service == owner)
