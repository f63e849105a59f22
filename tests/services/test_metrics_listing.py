"""Filters and paging of the lists of the JSON API."""

from base64 import b64encode

import pytest
from deviceshare_bus.messages.subjects import fact
from deviceshare_metrics import api, lists
from deviceshare_metrics.core.accounts import queue_accounts
from deviceshare_metrics.listing import BadQueryError, select
from hypothesis import given
from hypothesis import strategies as st
from support.metrics import read, snapshot_of
from support.metrics_messages import claim, events, explanation, ledger, node, pod, step


def shown(name, namespace="default", state="Pending", queue="default", node=None, **changes):
    return api.Pod(
        namespace=namespace, name=name, uid=f"{namespace}-{name}", scheduler="volcano", node=node, state=state,
        devices=(), reason=None, queue=queue, group="", problems=(), **changes,
    )  # fmt: skip


PODS = (
    shown("a"),
    shown("b", state="Bound", node="n1"),
    shown("c", namespace="team", queue="research", state="Bound", node="n2"),
    shown("d", namespace="team", queue="research", state="Gated"),
)


@pytest.mark.parametrize(("state", "expected"), [("nominated", "n"), ("pending", "np"), ("Terminating", "t")])
def test_a_pod_is_found_by_its_state_and_by_the_status_that_users_see(state, expected):
    pods = (
        shown("n", nominated_node="n1"), shown("p"), shown("t", state="Bound", node="n1", terminating=True),
        shown("e", state="Ended", terminating=True),
    )  # fmt: skip
    assert "".join(pod.name for pod in select("pods", pods, [("state", state)])[0]) == expected


def names(query):
    items, _ = select("pods", PODS, query)
    return "".join(pod.name for pod in items)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ([], "abcd"),
        ([("namespace", "team")], "cd"),
        ([("queue", "research"), ("state", "bound")], "c"),
        ([("node", "n1")], "b"),
        ([("state", "Pending"), ("state", "Gated")], "ad"),
        ([("namespace", "other")], ""),
    ],
)
def test_filters(query, expected):
    assert names(query) == expected


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (
            [("nmespace", "x")],
            "nmespace: unknown parameter of pods; known: namespace, queue, node, model, state, limit",
        ),
        ([("limit", "0")], "limit: expected a number from 1 to 10000"),
        ([("limit", "x")], "limit: expected a number"),
        ([("limit", "9" * 5000)], "limit: expected a number"),
        ([("limit", "1".zfill(5000))], "limit: expected a number"),
        ([("limit", "000000001" + "9" * 5000)], "limit: expected a number"),
        ([("limit", "00000000199999")], "limit: expected a number"),
        ([("continue", b64encode(b"[" * 5000 + b"]" * 5000).decode())], "continue: expected the value"),
        ([("continue", "%%%")], "continue: expected the value of the previous answer"),
        ([("continue", "WzEsMl0=")], "continue: expected the value of the previous answer"),
        ([("continue", "bnVsbA==")], "continue: expected the value of the previous answer"),
    ],
)
def test_bad_queries_name_what_is_expected(query, message):
    with pytest.raises(BadQueryError, match=message):
        select("pods", PODS, query)


@given(st.integers(1, 5), st.sets(st.integers(0, 30)), st.sets(st.integers(0, 30)))
def test_parts_neither_repeat_nor_hide_items_that_stay(limit, first, later):
    objects = [shown(f"p{number:02d}") for number in sorted(first)]
    found, rest = select("pods", objects, [("limit", str(limit))])
    read_names = [pod.name for pod in found]
    objects = [shown(f"p{number:02d}") for number in sorted(later)]
    while rest:
        assert len(found) == limit
        found, rest = select("pods", objects, [("limit", str(limit)), ("continue", rest)])
        read_names += [pod.name for pod in found]
    assert read_names == sorted(set(read_names))
    assert {f"p{number:02d}" for number in first & later} <= set(read_names)


def test_waiting_pods_are_grouped_by_job_and_reason():
    core = read(
        node(),
        pod("a", group="default/j", queue="research", created=7.0),
        pod("b", group="default/j", queue="research", created=5.0),
        pod("c", group="default/j", queue="research"),
        pod("d", group="pod/uid-d", queue="research"),
        *(explanation(name, message="0/1 nodes") for name in "abd"),
        explanation("c", message="0/1 nodes: other"),
    )
    groups = lists.waiting(snapshot_of(core).pods, core.store)
    assert [(group.group, group.reason, group.pods, group.first, group.since) for group in groups] == [
        ("default/j", "0/1 nodes", 2, ("a", "b"), 5.0),
        ("", "0/1 nodes", 1, ("d",), 0.0),
        ("default/j", "0/1 nodes: other", 1, ("c",), 0.0),
    ]


def test_events_are_listed_from_the_latest_with_filters_and_paging():
    core = read(
        node(), pod("a", queue="research", node="n1"), pod("b"),
        events("inventory", step("seen", 1.0), step("seen", 2.0, "b")), events("binder", step("bound", 3.0)),
    )  # fmt: skip
    found = [*lists.events(core.events.latest(), core.store)]
    assert [(each.number, each.name, each.step) for each in found] == [
        (3, "a", "bound"), (2, "b", "seen"), (1, "a", "seen"),
    ]  # fmt: skip
    items, rest = select("events", found, [("limit", "2")])
    assert [each.number for each in items] == [3, 2]
    items, rest = select("events", found, [("limit", "2"), ("continue", rest)])
    assert ([each.number for each in items], rest) == ([1], "")
    assert [each.number for each in select("events", found, [("queue", "research"), ("state", "seen")])[0]] == [1]
    assert core.events.minutes() == {0: {"seen": 2, "bound": 1}}


def test_queues_show_their_accounts():
    core = read(node(allocatable={"cpu": 8000}), pod("a", queue="q"), pod("b", queue="q"), ledger(claim("a")))
    (queue,) = [each for each in lists.queues(queue_accounts(core.store), snapshot_of(core), core.store) if each.pods]
    assert (queue.name, queue.used["cpu"], queue.requested["cpu"]) == ("q", 500, 1000)
    assert queue.pods == {"Claimed": 1, "Pending": 1}
    assert fact("queue", "q") not in core.store.queues
