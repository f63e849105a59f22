"""A watch that loses changes is detected: the revisions that it delivered are compared with the cluster's."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest
from deviceshare.model import Gone
from deviceshare_bus.messages.codec import decode_events
from deviceshare_bus.wire.requests import Requests
from deviceshare_cluster.interface import Change, ChangeType, Listed, Revisions
from deviceshare_inventory import service
from deviceshare_inventory.core import ComparisonFailed, RestartWatch, RevisionsCompared, comparison
from deviceshare_inventory.core.seen_revisions import SeenRevisions
from deviceshare_localcluster import LocalCluster
from nats.js.errors import NotFoundError
from support.inventory import node, pod, settled, stands, started
from support.service import INVENTORY, at_work
from support.waiting import until

NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "4"}}}
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "a", "namespace": "default"},
    "spec": {"schedulerName": "volcano", "containers": [{"name": "main", "image": "busybox"}]},
}
A, B = ("default", "a"), ("default", "b")


def applied(name, revision):
    return Change(ChangeType.APPLIED, "Pod", "default", name, revision, b"")


def deleted(name, revision):
    return Change(ChangeType.DELETED, "Pod", "default", name, revision, b"")


def seen(*changes):
    found = SeenRevisions()
    for change in changes:
        found.apply(change)
    return found


@pytest.mark.parametrize(
    ("brought", "listed", "lost"),
    [
        ([applied("a", 3)], {A: 3}, []),
        ([applied("a", 3)], {A: 5}, [A]),
        ([], {A: 5}, [A]),
        ([applied("a", 3)], {}, [A]),
        ([applied("a", 3), deleted("a", 4)], {}, []),
        ([applied("a", 7)], {A: 5}, []),  # the watch may be ahead of the list
    ],
)
def test_what_the_list_has_otherwise_was_lost(brought, listed, lost):
    watch = seen(*brought)
    since = watch.begin_comparison("Pod")
    assert watch.lost("Pod", watch.behind("Pod", Revisions(listed, 9), since)) == lost


@pytest.mark.parametrize(
    ("listed", "later"),
    [
        ({A: 3, B: 5}, applied("b", 5)),  # it was on its way
        ({A: 3, B: 5}, deleted("b", 6)),  # and went at once
        ({A: 4}, applied("a", 6)),
        ({}, deleted("a", 4)),
    ],
)
def test_what_comes_within_seconds_was_not_lost(listed, later):
    watch = seen(applied("a", 3))
    behind = watch.behind("Pod", Revisions(listed, 6), watch.begin_comparison("Pod"))
    assert behind
    assert watch.may_arrive("Pod", behind, 6)
    watch.apply(later)
    assert watch.lost("Pod", behind) == []


def test_what_came_while_the_list_was_made_is_not_gone():
    watch = seen(applied("a", 3))
    since = watch.begin_comparison("Pod")
    watch.apply(applied("b", 4))
    watch.apply(deleted("a", 5))
    assert watch.behind("Pod", Revisions({A: 3}, 9), since) == {}


def test_a_list_older_than_the_watch_does_not_count_later_changes_as_lost():
    watch = seen(applied("a", 3), applied("b", 7))
    since = watch.begin_comparison("Pod")
    assert watch.behind("Pod", Revisions({A: 3}, 5), since) == {}
    assert watch.behind("Pod", Revisions({A: 3}, 7), since) == {B: 0}


@pytest.mark.parametrize(
    ("listed", "at", "may_arrive"),
    [
        ({A: 5}, 5, False),  # b came, which is newer: a watch brings what happens in order
        ({A: 8}, 8, True),
        ({}, 6, False),
        ({}, 8, True),
    ],
)
def test_what_a_watch_has_passed_over_does_not_come_any_more(listed, at, may_arrive):
    watch = seen(applied("a", 3), applied("b", 6))
    there = Revisions(listed | {B: 6}, at)
    behind = watch.behind("Pod", there, watch.begin_comparison("Pod"))
    assert list(behind) == [A]
    assert watch.may_arrive("Pod", behind, at) is may_arrive


def watching(*changes):
    """Return a core whose watch has delivered a list."""
    driver, _, _ = started(changes, 5)
    return driver


def due(driver):
    """Let the time of the next step come; return the commands."""
    driver.wait(driver.core.next_due(driver.now) - driver.now.monotonic)
    return driver.take()


def compare(driver, request, found, at=9):
    driver.handle(RevisionsCompared(request.comparison, request.kind, Revisions(found, at)))
    return driver.take()


def test_all_kinds_are_compared_one_after_another_with_pauses_between_rounds():
    driver = watching(node(revision=3))
    kinds = []
    (request,) = due(driver)
    assert driver.now.monotonic == pytest.approx(6.25)  # 5 s, and a quarter more with jitter
    while request:
        kinds.append(request.kind)
        driver.wait(0.1)
        found = {("", "n1"): 3} if request.kind == "Node" else {}
        (request,) = compare(driver, request, found) or [None]
    assert kinds == list(comparison.COMPARED)
    assert driver.core.next_due(driver.now) - driver.now.monotonic == pytest.approx(0.1 * len(kinds) / 0.02 * 1.25)


def test_a_lost_change_restarts_the_watch_and_ends_the_round():
    driver = watching(node(revision=3), pod(revision=4))
    (request,) = due(driver)
    assert compare(driver, request, {("", "n1"): 3, ("", "n2"): 8}) == []
    assert driver.core.next_due(driver.now) - driver.now.monotonic == comparison.LATE, "it may be on its way"
    assert due(driver) == [RestartWatch()]
    assert driver.counts["reconciled:fact"] == 1
    assert driver.logged[-1].message == "the watch lost 1 changes of kind Node, such as /n2"
    assert driver.core.next_due(driver.now) is None
    driver.begin_list()
    driver.deliver([node(revision=3), Listed(9)])
    driver.take()
    assert driver.core.next_due(driver.now) is not None


def test_an_answer_from_before_a_new_list_is_ignored():
    driver = watching(node(revision=3))
    (request,) = due(driver)
    driver.begin_list()
    driver.deliver([Listed(9)])
    driver.take()
    assert compare(driver, request, {("", "n2"): 4}) == []
    assert driver.core.next_due(driver.now) - driver.now.monotonic > comparison.LATE


def test_a_failed_comparison_is_followed_by_the_next_kind_and_a_refusal_is_logged_once():
    driver = watching(node(revision=3))
    for level, final in (("debug", False), ("warning", True), ("debug", True)):
        (request,), counted = due(driver), driver.counts["cluster_errors"]
        while request:
            failed = ComparisonFailed(request.comparison, request.kind, "not now", final and request.kind == "Pod")
            driver.handle(failed)
            (request,) = driver.take() or [None]
        lines = [one.level for one in driver.logged[-len(comparison.COMPARED) :]]
        assert lines == ["debug", level, *["debug"] * (len(lines) - 2)]
        known = (level, final) == ("debug", True)
        assert driver.counts["cluster_errors"] - counted == len(lines) - known


def test_a_lost_answer_delays_the_next_round_by_no_more_than_it_took():
    """Half an hour without comparisons after one timeout left lost changes unnoticed for as long."""
    driver = watching(node(revision=3))
    (request,) = due(driver)
    driver.wait(30.0)
    driver.handle(ComparisonFailed(request.comparison, request.kind, "no answer", final=False))
    (request,) = driver.take()
    while request:
        driver.wait(0.01)
        (request,) = compare(driver, request, {}) or [None]
    assert driver.core.next_due(driver.now) - driver.now.monotonic == pytest.approx(30.0 * 1.25)


class Lossy(LocalCluster):
    """A cluster whose first watch delivers no change after its list."""

    watches = 0

    async def watch(self, kinds: Sequence[str], window: float = 0.0) -> AsyncIterator[list[Change | Listed]]:
        type(self).watches += 1
        first, listed = type(self).watches == 1, False
        async for batch in super().watch(kinds, window):
            if not (first and listed):
                yield batch
            listed = listed or any(isinstance(item, Listed) for item in batch)


async def test_a_watch_that_loses_changes_is_begun_anew(nats_url, monkeypatch):
    monkeypatch.setattr(comparison, "COMPARE_INTERVAL", 0.1)
    monkeypatch.setattr(comparison, "LATE", 1.0)
    monkeypatch.setattr(service, "open_cluster", lambda _, silence: Lossy(nats_url))
    monkeypatch.setattr(Lossy, "watches", 0)
    async with LocalCluster(nats_url) as cluster:
        await cluster.setup()
        await cluster.create(NODE)
        await cluster.create(POD)
        gone = (await cluster.get("Pod", "default", "a"))["metadata"]["uid"]
        options = INVENTORY | {"cluster": "lossy"}
        async with at_work("inventory", service.main, nats_url, **options) as context:
            await until(lambda: context.followers and context.ready and not context.open_work())
            await cluster.delete("Pod", "default", "a")
            await cluster.create(NODE | {"metadata": {"name": "n2"}})
            newest = (await cluster.get("Node", "", "n2"))["metadata"]["resourceVersion"]
            await settled(context, int(newest))
            assert isinstance(await stands(context, f"cluster.pod.{gone}"), Gone)
            assert (await stands(context, "cluster.node.n2")).name == "n2"
            await asyncio.sleep(2.0)  # some comparisons more, which find nothing
            assert Lossy.watches == 2
            assert await repaired(context) >= 1


class Compared(LocalCluster):
    """A cluster that notes which task compares."""

    comparing: asyncio.Task | None = None

    async def revisions(self, kind: str) -> Revisions:
        await asyncio.sleep(0.5)  # until no other comparison is due
        Compared.comparing = asyncio.current_task()
        return await super().revisions(kind)


async def test_the_service_ends_though_an_answer_comes_with_its_cancellation(nats_url, monkeypatch):
    """With ``asyncio.wait_for`` on Python 3.11 the comparison takes the answer, and goes on for ever."""
    asked = asyncio.Event()
    answered = Requests.answered

    def answered_when_cancelled(self, message):
        if Compared.comparing is not None and b"stream_info_response" in message.data:
            asked.set()
            if not Compared.comparing.cancelling():
                asyncio.get_running_loop().call_soon(answered_when_cancelled, self, message)
                return
        answered(self, message)

    monkeypatch.setattr(comparison, "COMPARE_INTERVAL", 0.01)
    monkeypatch.setattr(Requests, "answered", answered_when_cancelled)
    monkeypatch.setattr(service, "open_cluster", lambda _, silence: Compared(nats_url))
    async with LocalCluster(nats_url) as cluster:
        await cluster.setup()
        options = INVENTORY | {"cluster": "local"}
        async with asyncio.timeout(60), at_work("inventory", service.main, nats_url, **options):
            await asked.wait()


async def repaired(context):
    """Flush what was counted and return how many facts were lost."""
    await context.events.flush()
    async with asyncio.timeout(60):
        while True:
            try:
                message = await context.connection.jetstream.get_last_msg("EVENT", "event.inventory")
                return decode_events(message.data).counters["reconciled:fact"]
            except NotFoundError:
                await asyncio.sleep(0.05)
