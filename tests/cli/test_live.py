"""The live table on a terminal."""

import io
from collections.abc import Sequence

import msgspec
import pytest
from deviceshare_cli.endpoint import Endpoint
from deviceshare_cli.errors import CommandError
from deviceshare_cli.live import _events, _explain, pending_groups, view
from deviceshare_cli.live_keys import Keys
from deviceshare_cli.live_nodes import glyph, nodes_view, totals
from deviceshare_cli.live_table import LiveTable
from deviceshare_cli.pods import PodView
from deviceshare_cli.waiting_reasons import WaitingReason
from deviceshare_metrics.api import Device, Items, Node
from deviceshare_metrics.api_dashboard import PodEvent
from rich.console import Console
from support.hostile_texts import TEXT, harmless


def node(name: str, pods: int = 0) -> Node:
    return Node(name=name, ready=True, unschedulable=False, allocatable={}, used={}, pods=pods, cards=0, problems=())


def card(used: int, total: int, *, healthy: bool = True, node: str = "node-a") -> Device:
    return Device(
        node=node,
        id="GPU-1",
        index=0,
        type="A100",
        mode="",
        healthy=healthy,
        memory_total=total,
        memory_used=used,
        cores_total=100,
        cores_used=0,
        slots_total=1,
        slots_used=int(used > 0),
        pods=(),
    )


def drawn(
    board: LiveTable,
    nodes: list[Node],
    devices: list[Device],
    keys: Keys | None = None,
    *,
    settled: bool,
    rows: int = 10,
    now: float = 0.0,
    explained: str = "",
    events: Sequence[str] = (),
) -> str:
    console = Console(record=True, width=100, file=io.StringIO())
    table = nodes_view(nodes, devices, keys or Keys(), width=100, rows=rows) if nodes else None
    console.print(view(board, table, keys, settled=settled, now=now, explained=explained, events=events))
    return console.export_text()


def board_with(*pods: PodView) -> LiveTable:
    board = LiveTable(("volcano",), lambda _: ())
    board.pods = {pod.ref: pod for pod in pods}
    board.placed = {pod.ref: f"{pod.ref} -> {pod.node}" for pod in pods if pod.node}
    return board


def pod(name: str, node: str = "", reason: str = "", group: str = "") -> PodView:
    annotations = {"scheduling.k8s.io/group-name": group} if group else {}
    return PodView("default", name, f"uid-{name}", "volcano", node, False, annotations, reason)


def test_counts_totals_nodes_placements_and_reasons_are_shown() -> None:
    nodes, cards = [node("node-a", 1), node("plain")], [card(512, 1024), card(0, 1024)]
    text = drawn(board_with(pod("a", "node-a"), pod("b", reason="0/2 nodes [x]")), nodes, cards, settled=True)
    assert "1 bound, 1 pending: settled (Ctrl-C ends)" in text
    assert "A100: 1 of 2 free, 25% allocated" in text
    assert "node-a ▄·" in text
    assert "plain  none" in text
    assert "default/a -> node-a" in text
    assert "default/b: 0/2 nodes [x]" in text


def test_new_work_after_settling_is_shown() -> None:
    assert "working" in drawn(board_with(pod("a")), [], [], settled=True)


def test_nodes_share_lines_and_those_with_most_free_capacity_are_first() -> None:
    nodes = [node(f"n{number:02d}") for number in range(20)]
    cards = [card(number, 20, node=f"n{number:02d}") for number in reversed(range(20))]
    text = drawn(board_with(), nodes, cards, settled=True, rows=2)
    lines = [line for line in text.splitlines() if line.startswith("n")]
    assert [line.split()[0] for line in lines] == ["n00", "n01"]
    assert len(lines[0].split()) > 8
    assert all(len(line) <= 100 for line in lines)
    assert "20 nodes by free, page 1 of 2" in text


def names(text: str) -> list[str]:
    """Return the names of the nodes of a page, column by column."""
    lines = [line.split()[::2] for line in text.splitlines() if line.startswith("n")]
    return [line[at] for at in range(len(lines[0])) for line in lines if at < len(line)]


def test_keys_page_and_sort_the_nodes() -> None:
    keys, nodes = Keys(), [node(f"n{number:02d}") for number in range(60)]
    cards = [card(number * 7 % 60, 60, node=f"n{number:02d}") for number in range(60)]
    expected = {
        "free": sorted(range(60), key=lambda number: number * 7 % 60),
        "used": sorted(range(60), key=lambda number: -(number * 7 % 60)),
        "name": list(range(60)),
    }
    for order, numbers in expected.items():
        assert keys.orders[0] == order
        found = []
        for page in range(1, 5):
            text = drawn(board_with(), nodes, cards, keys, settled=True, rows=2)
            assert f"60 nodes by {order}, page {page} of 4" in text
            found += names(text)
            keys.press("n")
        assert found == [f"n{number:02d}" for number in numbers]
        assert names(drawn(board_with(), nodes, cards, keys, settled=True, rows=2)) == names(text), "the last page"
        keys.press("p")
        assert "page 3 of 4" in drawn(board_with(), nodes, cards, keys, settled=True, rows=2)
        keys.press("s")
        assert keys.page == 0
    assert keys.orders[0] == "free"


async def test_events_are_shown_in_place_of_the_placements(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = [
        PodEvent(
            number=number, time=0.0, service="binder", step="bound", namespace="default", name=f"p{number}", uid="u",
            node="n1", queue="q", message=TEXT,
        )
        for number in range(20, 0, -1)
    ]  # fmt: skip

    async def answer(*arguments: object) -> Items[PodEvent]:
        assert arguments[1:] == ("events", Items[PodEvent], [("limit", "500")])
        return Items(items=tuple(steps))

    monkeypatch.setattr("deviceshare_cli.live.fetch", answer)
    keys, board = Keys(), board_with(pod("a", "node-a"))
    events = await _events(Endpoint("http://127.0.0.1:1"))
    assert "last placements" in drawn(board, [], [], keys, settled=True, events=events)
    keys.press("v")
    text = drawn(board, [], [], keys, settled=True, events=events)
    assert "last events" in text
    assert "default/a ->" not in text
    shown = [line.split()[3] for line in text.splitlines() if "bound" in line and "default/" in line]
    assert shown == [f"default/p{number}" for number in range(13, 21)], "the latest are last"
    harmless(text)
    keys.wanted = "p7"
    assert "default/p7 on n1" in drawn(board, [], [], keys, settled=True, events=events)


def test_cards_that_are_a_plain_number_of_the_node_are_shown() -> None:
    legacy = Node(
        name="legacy", ready=True, unschedulable=False, allocatable={"nvidia.com/gpu": 6}, used={"nvidia.com/gpu": 2},
        pods=2, cards=0, problems=(),
    )  # fmt: skip
    assert "legacy ██····" in drawn(board_with(), [legacy], [], settled=True)


def test_omitted_groups_are_counted() -> None:
    text = drawn(board_with(*(pod(f"p{number}") for number in range(20))), [node("n")], [], settled=False)
    assert "and 12 more" in text


def test_pods_of_a_gang_with_one_reason_are_one_line() -> None:
    gang = [pod(f"w{number}", reason="no room", group="train") for number in range(5)]
    assert [(name, len(found)) for name, found in pending_groups([*gang, pod("x", reason="no room")])] == [
        ("default/train", 5),
        ("default/x", 1),
    ]
    assert "default/train (5 pods): no room" in drawn(board_with(*gang), [], [], settled=True)


def test_reasons_are_those_of_today_or_have_their_age() -> None:
    board = board_with(
        *(pod(f"w{number}", reason="no room", group="train") for number in range(3)),
        pod("held", reason="1700m used"),
        pod("new", reason="its condition"),
    )
    no_room = [WaitingReason("no card", at) for at in (0.0, 700.0, 1000.0)]
    board.reasons = {f"uid-w{number}": reason for number, reason in enumerate(no_room)} | {
        "uid-held": WaitingReason("1900m used", 0.0)
    }
    text = drawn(board, [], [], settled=True, now=700.0 + 31 * 60)
    assert "default/train (3 pods): no card (as of 31m ago)\n" in text
    assert "default/held: 1900m used\n" in "".join(f"{line.rstrip()}\n" for line in text.splitlines())
    assert "default/new: its condition" in text
    assert "1700m" not in text
    assert "no room" not in text


def test_glyphs() -> None:
    assert glyph(card(1, 100_000)).plain == "▁"
    assert glyph(card(0, 0)).plain == "·"
    assert glyph(card(10, 10)).plain == "█"
    assert glyph(card(0, 10, healthy=False)).plain == "✗"
    assert totals([card(0, 10, healthy=False)], []) == ["A100: 0 of 1 free, 0% allocated, 1 unhealthy"]


def test_keys_filter_select_and_explain() -> None:
    keys, calls = Keys(), []
    keys.changed = lambda: calls.append(1)
    for key in ("/", "b", "x", "\x7f", "\r"):
        keys.press(key)
    assert (keys.wanted, keys.typing, len(calls)) == ("b", False, 5)
    board = board_with(pod("a", reason="r"), pod("b", reason="r"), pod("bb", reason="r"))
    text = drawn(board, [node("node-a"), node("node-b")], [], keys, settled=True)
    assert "node-a" not in text
    assert "default/a" not in text
    for key in ("\x1b[B", "e"):
        keys.press(key)
    assert (keys.selected, keys.explaining) == (1, True)
    assert "> default/bb: r" in drawn(board, [], [], keys, settled=True)
    keys.press("k")
    keys.press("k")
    keys.press("\x1b")
    assert (keys.selected, keys.wanted, keys.explaining) == (0, "", False)
    keys.wanted = "absent"
    assert "no node matches 'absent'" in drawn(board, [node("n")], [], keys, settled=True)


def test_texts_of_users_do_not_reach_the_terminal() -> None:
    waiting, bound = pod(TEXT, reason=TEXT), pod("b", node=TEXT)
    card_of_user = msgspec.structs.replace(card(0, 1024, node=TEXT), type=TEXT, mode=TEXT)
    text = drawn(
        board_with(waiting, bound), [node(TEXT)], [card_of_user], settled=True, explained=TEXT.replace("\n", " ")
    )
    assert "\\u001b]0;owned" in text
    harmless(text)


async def test_an_error_in_place_of_an_explanation_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    async def failing(*_: object) -> None:
        raise CommandError(TEXT)

    monkeypatch.setattr("deviceshare_cli.live.fetch", failing)
    explained = await _explain(Endpoint("http://127.0.0.1:1"), pod("a"))
    assert "FAKED" in explained
    harmless(explained)
