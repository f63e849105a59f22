"""Decoded messages share equal parts, and stay equal."""

import msgspec
import pytest
from deviceshare.model import (
    PENDING,
    Choice,
    Claim,
    ContainerGrant,
    ContainerRequest,
    DeviceGrant,
    Explanation,
    NearCard,
    NearNode,
    NodeLedger,
    NodeOutcomes,
    Outcome,
    PodFact,
    PodRequest,
    Refusal,
)
from deviceshare_bus.cores.core import Event
from deviceshare_bus.messages import subjects
from deviceshare_bus.messages.codec import Message, decode_explanation, decode_fact, encode
from deviceshare_bus.messages.known_items import LEDGERS, OUTCOMES
from deviceshare_bus.messages.sharing import (
    LARGEST,
    SHARED_BYTES,
    SharedValues,
    share_grants,
    share_names,
    share_outcome,
)
from deviceshare_bus.messages.validation import validated


class Received(Event, frozen=True):
    content: msgspec.Struct


decode = validated(
    {"pod": decode_fact, "ledger": LEDGERS, "outcome": OUTCOMES, "explain": decode_explanation},
    lambda message, where, content: Received(content),
)
GRANTS = (ContainerGrant("main", 0, "hami-core", (DeviceGrant("GPU-1", 0, 1024, 5),)),)


def read(subject, message):
    found = decode(Message(subject, 1, encode(message))).content
    assert found == message
    assert encode(found) == encode(message)
    return found


def pod(uid):
    request = PodRequest(containers=(ContainerRequest("main", (("cpu", 100), ("volcano.sh/vgpu-number", 1))),))
    return PodFact(
        uid=uid, namespace="space", name=f"pod-{uid}", scheduler="volcano", node="node-1", queue="team", ask=request,
        labels=(("app", "x"),), held=GRANTS, owner="Job/train",
    )  # fmt: skip


def test_pods_of_one_template_share_all_but_their_names():
    one, two = (read(subjects.fact("pod", uid), pod(uid)) for uid in ("u1", "u2"))
    for field in ("namespace", "scheduler", "node", "queue", "ask", "owner"):
        assert getattr(one, field) is getattr(two, field), field
    assert one.labels[0] is two.labels[0]
    assert one.held[0].container is two.held[0].container
    assert one.held[0].family is two.held[0].family


def test_explanations_of_pods_that_wait_for_one_reason_share_it():
    def explanation(uid):
        refusal = Refusal(code="NodeInsufficientDevice", text="Insufficient volcano.sh/vgpu-number", nodes=2, asked=1)
        near = NearNode(node="node-1", refusals=(refusal,), cards=(NearCard(id="GPU-1", index=0, memory=512),))
        return Explanation(
            uid=uid, namespace="space", name=f"pod-{uid}", at=1.0, decision=PENDING, message="0/2 nodes",
            nodes=2, refusals=(refusal,), first_failing=(refusal,), closest=(near,), queue="team", decided_by="one",
        )  # fmt: skip

    one, two = (read(subjects.explain(uid), explanation(uid)) for uid in ("u1", "u2"))
    for field in ("namespace", "message", "refusals", "first_failing", "closest", "queue", "decided_by"):
        assert getattr(one, field) is getattr(two, field), field


def test_claims_and_outcomes_share_what_is_common_to_many_pods():
    def claim(uid):
        return Claim(
            id=f"c-{uid}", uid=uid, namespace="space", name=uid, queue="team", decided_by="placement-1", grants=GRANTS,
            resources=(("cpu", 100), ("memory", 1 << 28)),
        )  # fmt: skip

    first, second = read(subjects.ledger("n"), NodeLedger(node="n", claims=(claim("u1"), claim("u2")))).claims
    for field in ("namespace", "queue", "decided_by", "resources"):
        assert getattr(first, field) is getattr(second, field), field
    outcomes = tuple(Outcome(f"c-{uid}", uid, "bound") for uid in ("u1", "u2"))
    one, two = read(subjects.outcome("n"), NodeOutcomes(node="n", outcomes=outcomes)).outcomes
    assert one.state is two.state
    seen = read(subjects.fact("pod", "u1"), pod("u1"))
    assert seen.held[0].devices[0].id is first.grants[0].devices[0].id


def test_choices_share_what_the_configuration_says():
    def ledger(uid):
        choice = Choice(nodes=3, policy="binpack", plugins=("nodeorder", "deviceshare"), queue="other", score=1.5)
        return NodeLedger(node="n", claims=(Claim(id=f"c-{uid}", uid=uid, namespace="x", name=uid, choice=choice),))

    one, two = (read(subjects.ledger("n"), ledger(uid)).claims[0].choice for uid in ("u1", "u2"))
    for field in ("policy", "plugins", "queue"):
        assert getattr(one, field) is getattr(two, field), field


def test_large_labels_of_pods_do_not_stay():
    shared = SharedValues()
    for number in range(50):
        labels = tuple((f"key-{each}", f"{number}-{each}" + "x" * 50) for each in range(900))
        shared.message(PodFact(uid=str(number), namespace="space", name=str(number), labels=labels))
        shared.message(PodFact(uid="large", namespace="space", name="large", labels=(("key", f"{number}" * 60_000),)))
        assert max(len(encode(value)) for value in shared._values) <= LARGEST
        assert sum(len(encode(value)) for value in shared._values) == shared._bytes <= SHARED_BYTES


def test_the_sum_of_what_is_remembered_is_bounded():
    shared = SharedValues()
    for number in range(2 * SHARED_BYTES // LARGEST):
        shared.value(f"{number}".ljust(LARGEST - 3))
        assert shared._bytes <= SHARED_BYTES
    assert 0 < len(shared) <= SHARED_BYTES // LARGEST
    assert shared._bytes == sum(len(encode(value)) for value in shared._values)
    large = "x" * LARGEST
    assert shared.value(large) is large
    assert large not in shared._values


def test_what_is_remembered_is_bounded():
    shared = SharedValues(most=10)
    for number in range(100):
        assert shared.value(f"text {number}") == f"text {number}"
        assert len(shared) <= 10
    assert shared.value("text 99") is shared.value("text " + str(99))


def test_a_request_that_is_not_decoded_does_not_keep_its_message():
    class Seen(msgspec.Struct, frozen=True):
        ask: msgspec.Raw

    def seen():
        return msgspec.msgpack.decode(encode({"ask": {"containers": ["x"]}, "more": "y" * 1000}), type=Seen)

    shared, one, two = SharedValues(), seen(), seen()
    shared.message(one)
    shared.message(two)
    assert bytes(one.ask) == bytes(two.ask) == encode({"containers": ["x"]})
    assert len(shared) == 1


def test_the_claim_and_the_outcome_of_a_known_pod_have_its_names_and_stay_equal():
    known = read(subjects.fact("pod", "u1"), pod("u1"))
    claim = Claim(id="c1", uid="u1", namespace="space", name="another name", group="pod/u1")
    (new,) = read(subjects.ledger("n"), NodeLedger(node="n", claims=(claim,))).claims
    share_names(new, known)
    assert new == claim
    assert new.uid is known.uid
    (outcome,) = read(subjects.outcome("n"), NodeOutcomes(node="n", outcomes=(Outcome("c1", "u1", "bound"),))).outcomes
    share_outcome(outcome, new)
    assert outcome == Outcome("c1", "u1", "bound")
    assert (outcome.claim is new.id, outcome.uid is new.uid) == (True, True)


@pytest.mark.parametrize(
    ("device", "shared"),
    [
        (DeviceGrant("GPU-1", 0, 1024, 5), True),
        (DeviceGrant("GPU-1", -1, 1024, 5), True),
        (DeviceGrant("GPU-1", 1, 1024, 5), False),
        (DeviceGrant("GPU-2", -1, 1024, 5), False),
        (DeviceGrant("GPU-1", -1, 2048, 5), False),
        (DeviceGrant("GPU-1", -1, 1024, 5, made="MIG-1"), False),
    ],
)
def test_what_a_bound_pod_holds_is_one_object_with_the_equal_grants_of_its_claim(device, shared):
    held = (ContainerGrant("main", 0, "hami-core", (device,)),)
    bound = PodFact(uid="u1", namespace="space", name="p", node="n", held=held)
    share_grants(bound, GRANTS)
    assert bound.held is (GRANTS if shared else held)
