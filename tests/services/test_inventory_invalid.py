"""Inventory and invalid messages, and tombstones whose write has no clear result."""

import pytest
from deviceshare.model import Gone, PodFact
from deviceshare_bus.cores.core import Read, ReadBack, Unreadable, Write, WriteConflict, WriteUnknown, Written
from deviceshare_bus.messages.codec import encode
from deviceshare_bus.messages.subjects import SYNCED, fact
from deviceshare_cluster.interface import Listed
from support.inventory import Driver, gone, node, pod, started, work_off

SUBJECT = fact("pod", "u1")


def unreadable(subject: str, sequence: int, *, newer: bool = False) -> Unreadable:
    return Unreadable("CLUSTER", subject, sequence, "the reason", newer)


def test_an_invalid_fact_is_written_anew():
    driver, bus, _ = started([node()])
    bus.write(fact("node", "n1"), b"?", None)
    driver.handle(unreadable(fact("node", "n1"), bus.sequence))
    work_off(driver, bus)
    assert bus.fact(fact("node", "n1")).name == "n1"


@pytest.mark.parametrize("newer", [False, True])
def test_an_invalid_message_that_the_cluster_is_known_is_written_anew(newer):
    driver, bus, _ = started([node()])
    bus.write(SYNCED, b"?", None)
    driver.handle(unreadable(SYNCED, bus.sequence, newer=newer))
    work_off(driver, bus)
    assert (bus.messages[SYNCED][1] == b"?") is newer


def test_a_fact_of_a_later_version_stays_until_it_is_replaced():
    driver, bus, _ = started([node()])
    subject = fact("node", "n1")
    bus.write(subject, b"later", None)
    driver.handle(unreadable(subject, bus.sequence, newer=True))
    work_off(driver, bus, node(revision=2, capacity={"cpu": "5"}, allocatable={"cpu": "5"}))
    assert bus.messages[subject][1] == b"later"
    assert driver.open_work == 0
    del bus.messages[subject]  # an operator deletes it
    driver.handle(ReadBack(subject, 0))
    work_off(driver, bus)
    assert bus.fact(subject).allocatable == {"cpu": 5000}


@pytest.mark.parametrize("subject", ["cluster.pod", "cluster.other.x", "cluster.x", "cluster.podgroup.x"])
def test_subjects_that_inventory_does_not_write_stay(subject):
    driver, bus, _ = started([node()])
    driver.handle(unreadable(subject, 99))
    driver.begin_list()
    work_off(driver, bus, node(), Listed(5))
    assert subject not in bus.messages
    driver.handle(ReadBack(subject, 0))
    assert driver.core._desired._records.keys() == {fact("node", "n1"), fact("config", "scheduler")}


def test_a_revision_of_thousands_of_digits_is_no_number():
    driver = Driver()
    driver.load(SUBJECT, 1, PodFact(uid="u1", namespace="a", name="b", revision="9" * 5000))
    driver.load(fact("pod", "u2"), 2, PodFact(uid="u2", namespace="a", name="c", revision="٣"))


@pytest.mark.parametrize("answer", [WriteUnknown, WriteConflict])
@pytest.mark.parametrize("found", ["tombstone", "object", "nothing", "invalid"])
@pytest.mark.parametrize("seen", ["before the answer", "with the read"])
def test_a_tombstone_without_a_clear_result_is_written_in_the_end(answer, found, seen):
    driver, bus, _ = started([pod()])
    driver.deliver([gone("Pod", "a", 2)])
    (write,) = [each for each in driver.take() if isinstance(each, Write)]
    sequence, data = bus.messages[SUBJECT]
    match found:
        case "tombstone":
            data = encode(Gone(revision="2"))
        case "object":
            data = encode(PodFact(uid="u1", namespace="default", name="a", revision="1", node="elsewhere"))
        case "invalid":
            data = b"?"
    if found == "nothing":
        del bus.messages[SUBJECT]
        sequence = 0
    else:
        bus.messages[SUBJECT] = (sequence + 1, data)
        bus.sequence = sequence = sequence + 1

    def deliver():
        if found == "invalid":
            driver.handle(unreadable(SUBJECT, sequence))
        elif found != "nothing":
            driver.load(SUBJECT, sequence, bus.fact(SUBJECT))

    if seen == "before the answer":
        deliver()
    driver.handle(answer(write.token))
    while commands := [each for each in driver.take() if isinstance(each, Read | Write)]:
        for each in commands:
            if isinstance(each, Read):
                deliver()
                driver.handle(ReadBack(SUBJECT, sequence))
            else:
                assert bus.write(SUBJECT, each.writes[0].message, each.writes[0].expected)
                driver.handle(Written(each.token, bus.sequence))
    assert found == "nothing" or isinstance(bus.fact(SUBJECT), Gone)
    assert driver.open_work == 0
    assert SUBJECT not in driver.core._desired._records
