"""Parts of ``deviceshare lab chaos`` on real processes: the checker finds what is wrong, proxies break connections."""

import asyncio
import random
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from zlib import crc32

import msgspec
import pytest
from deviceshare_cli.errors import CommandError
from deviceshare_cli.supervisor import Program, Supervisor
from deviceshare_lab.chaos.real.faults import FAULTS, parse_kinds
from deviceshare_lab.chaos.real.options import Options, parse_replicas
from deviceshare_lab.chaos.real.proxy import Link
from deviceshare_lab.chaos.real.read_evictions import EVICTED, ReadEvictions
from deviceshare_lab.chaos.real.report import Reporter
from deviceshare_lab.chaos.real.schedule import MOST, Deck, Kind, Schedule
from deviceshare_lab.chaos.real.system import NoEffect, System, running
from deviceshare_lab.chaos.real.users import STRANGER
from deviceshare_lab.checker import Violation
from deviceshare_lab.checker.at_rest import Objects, missing, without_members
from deviceshare_lab.checker.cards import Parts
from deviceshare_lab.checker.claims import Claims
from deviceshare_lab.clusters import manifests, objects
from support.waiting import until
from typer import BadParameter

NODE = manifests.node("a", "hami-core", 1)
MIG = manifests.node("m", "mig", 2)


class Found:
    """Claims of some nodes, and what was reported of them."""

    def __init__(self) -> None:
        self.reported: list[tuple[str, str]] = []
        nodes = {"a": NODE, "m": MIG}
        self.claims = Claims(lambda *said: self.reported.append(said), nodes.get, Parts(manifests.DEVICE_CONFIG))

    def ledger(self, node: str, *claims: dict[str, Any]) -> None:
        subject = f"ledger.{crc32(node.encode()) % 64}.{node}"
        self.claims.ledger(subject, msgspec.msgpack.encode({"v": 1, "node": node, "claims": claims}))

    def outcome(self, node: str, *outcomes: tuple[str, str, str]) -> None:
        subject = f"outcome.{crc32(node.encode()) % 64}.{node}"
        self.claims.outcome(subject, msgspec.msgpack.encode({"v": 1, "node": node, "outcomes": outcomes}))

    @property
    def rules(self) -> set[str]:
        return {rule for rule, _ in self.reported}


def claim(identity: str, uid: str, memory: int = 1000, family: str = "hami-core", detail: str = "") -> dict[str, Any]:
    card = "GPU-0001-0" if family == "hami-core" else "GPU-0002-0"
    grants = [["main", 0, family, [[card, 0, memory, 10, detail]]]]
    return {"id": identity, "uid": uid, "namespace": "default", "name": uid, "grants": grants}


def pod(name: str, node: str = "", **labels: str) -> dict[str, Any]:
    made = manifests.pod(name, manifests.FAMILIES["hami-core"][0])
    made["metadata"] |= {"uid": name, "labels": labels}
    if node:
        made["spec"]["nodeName"] = node
        made["metadata"]["annotations"]["volcano.sh/vgpu-ids-new"] = "GPU-0001-0,NVIDIA,1000,10:"
    return made


def problems(found: Found, *pods: dict[str, Any], groups: tuple[dict[str, Any], ...] = ()) -> list[str]:
    objects = Objects([NODE, MIG], list(pods), groups, [])
    return missing(objects, found.claims, ["deviceshare"], "may-wait", manifests.DEVICE_CONFIG)


def test_more_memory_than_a_card_has_is_found_in_the_ledger() -> None:
    found = Found()
    found.ledger("a", claim("1", "x", 50_000), claim("2", "y", 31_000))
    assert not found.reported
    found.ledger("a", claim("1", "x", 50_000), claim("3", "z", 32_000))
    assert found.reported == [("claims fit their cards", "a GPU-0001-0: 82000 MiB of 81920")]


def test_an_instance_that_is_claimed_twice_is_found() -> None:
    found = Found()
    found.ledger("m", *(claim(name, name, 5120, "mig", "group1-3") for name in "xy"))
    assert found.rules == {"claims fit their cards"}


@pytest.mark.parametrize("second", [("a", claim("1", "y")), ("m", claim("1", "x"))])
def test_an_id_that_is_used_again_is_found_even_after_the_ledger_was_lost(second: tuple[str, dict[str, Any]]) -> None:
    found = Found()
    found.ledger("a", claim("1", "x"))
    found.claims.now.clear()
    found.ledger("a", claim("1", "x"))
    assert not found.reported
    found.claims.now.clear()
    found.ledger(*second)
    assert found.rules == {"claim ids are unique"}


def test_a_claim_is_at_rest_when_its_pod_is_bound_and_the_outcome_names_both() -> None:
    found = Found()
    found.ledger("a", claim("1", "x"))
    assert len(problems(found)) == 1  # left over
    assert "has the outcomes []" in problems(found, pod("x", "a"))[0]
    found.outcome("a", ("1", "y", "bound"))
    assert "uid='y'" in problems(found, pod("x", "a"))[0]
    found.outcome("a", ("1", "x", "bound"))
    assert problems(found, pod("x", "a")) == []
    found.ledger("m", claim("2", "x"))
    assert any("has 2 claims" in problem for problem in problems(found, pod("x", "a")))


def test_a_waiting_pod_needs_a_reason_and_an_explanation_and_a_label_that_it_may_wait() -> None:
    found = Found()
    waiting = pod("x", **{"may-wait": "true"})
    assert "without a reason" in problems(found, waiting)[0]
    waiting["status"] = {"conditions": [{"type": "PodScheduled", "status": "False", "message": "too large"}]}
    assert "without an explanation" in problems(found, waiting)[0]
    found.claims.explanation("explain.x", b"\x80")
    assert problems(found, waiting) == []
    found.claims.explanation("explain.x", b"")
    assert problems(found, waiting) != []
    waiting["metadata"]["labels"] = {}
    assert "although there is room: too large" in problems(found, waiting)[0]


def evictions(*, go: bool, priorities: tuple[int, int] = (1, 10)) -> tuple[Found, ReadEvictions]:
    """Return what is known when pod x has to go for pod y."""
    found = Found()
    read = ReadEvictions(found.claims._report, found.claims)
    nominated = claim("1", "y") | {"waits_for": ["x"]}
    going = {"uid": "x", "namespace": "default", "name": "x", "claim": "1", "action": "preempt", "go": go}
    message = {"v": 2, "node": "a", "claims": [nominated], "evictions": [going]}
    subject = f"ledger.{crc32(b'a') % 64}.a"
    for take in (found.claims.ledger, read.ledger):
        take(subject, msgspec.msgpack.encode(message))
    for name, priority in zip("xy", priorities, strict=True):
        made = pod(name, "a" if name == "x" else "")
        made["spec"]["priority"] = priority
        made["status"] = {"conditions": [{"type": "DisruptionTarget", "reason": EVICTED}]} if name == "x" else {}
        read.pod(made)
    return found, read


def test_a_pod_that_goes_for_one_of_higher_priority_when_the_ledger_lets_it_breaks_no_rule() -> None:
    found, read = evictions(go=True)
    read.check(complete=True)
    assert (found.reported, read.count, read.left()) == ([], 1, ["default/x still has to go for 1"])


def test_an_eviction_for_a_pod_of_the_same_priority_is_found() -> None:
    found, read = evictions(go=True, priorities=(10, 10))
    read.check(complete=True)
    assert found.rules == {"pods of lower priority go"}


@pytest.mark.parametrize("complete", [True, False])
def test_an_eviction_that_the_ledger_has_not_begun_is_found_if_all_of_it_was_read(complete: bool) -> None:
    found, read = evictions(go=False)
    read.check(complete=complete)
    assert found.rules == ({"only pods that have to go are evicted"} if complete else set())


def test_a_gang_that_is_bound_in_part_is_found() -> None:
    found = Found()
    member = pod("x", "a")
    member["metadata"]["annotations"]["scheduling.k8s.io/group-name"] = "g"
    torn = problems(found, member, groups=(objects.pod_group("g", 2, "default"),))
    assert torn == ["gang default/g: 1 of 2 pods are bound"]


def test_a_member_that_another_scheduler_bound_does_not_tear_its_gang() -> None:
    found, stolen = Found(), pod("y", "a")
    member = pod("x", "a")
    for each in (member, stolen):
        each["metadata"]["annotations"]["scheduling.k8s.io/group-name"] = "g"
    groups = tuple(without_members([objects.pod_group("g", 2, "default")], [stolen]))
    assert problems(found, member, groups=groups) == []
    assert problems(found, member, groups=(objects.pod_group("g", 2, "default"),)) != []


def test_messages_of_a_stranger_are_not_taken_for_claims() -> None:
    found = Found()
    wrong = msgspec.msgpack.encode({"node": "b", "claims": [claim("1", "x", 10**6)]})
    for subject in ("ledger.x", f"ledger.{crc32(b'a') % 64}.a", "ledger.64.b"):
        found.claims.ledger(subject, wrong)
        found.claims.ledger(subject, b"\xc1")
    for malformed in ({"id": "1"}, {"id": "1", "uid": "x", "name": "x", "grants": [1]}, 5):
        found.ledger("a", malformed)  # type: ignore[arg-type]
    assert list(found.claims.all()) == []
    assert not found.reported


def test_names_of_faults_and_replicas_are_checked() -> None:
    assert set(parse_kinds("")) == FAULTS.keys()
    assert parse_kinds("wipe,kill") == ("wipe", "kill")
    with pytest.raises(CommandError, match="there is no fault flood"):
        parse_kinds("kill,flood")
    assert parse_replicas("binder=2") == {"inventory": 1, "placement": 1, "binder": 2, "metrics": 1}
    for wrong in ("binder", "binder=0", "web=2", "binder=x"):
        with pytest.raises(BadParameter, match="expected SERVICE=COUNT"):
            parse_replicas(wrong)


def test_a_violation_is_printed_with_its_seed_and_where_the_logs_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "binder-1.log").write_text("")
    (tmp_path / "binder-1.corelog").write_text("")
    reporter = Reporter(17, 60.0, None)
    reporter.fault("kill")
    reporter.settled.append((2.5, "#1 kill"))
    reporter.summary(["kill", "wipe"], {"add pod": 3}, "read 5 messages")
    reporter.broken([Violation("a rule", "its evidence", 1.5)], ["#1 kill binder-1"], tmp_path)
    reporter.end()
    said = capsys.readouterr().out
    for part in (
        "faults: kill 1\n",
        "NEVER INJECTED: wipe",
        "add pod 3",
        "read 5 messages",
        "at most 2.5 s, after #1",
    ):
        assert part in said
    for part in ("--seed 17", "#1 kill binder-1", "00:00:01.500Z a rule", "its evidence", str(tmp_path), "1.corelog"):
        assert part in said
    assert said.splitlines()[-1].startswith("1 faults, 1 violations (seed 17, ")
    assert "its evidence" in (tmp_path / "violation.txt").read_text()


Opened = Callable[[], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]


@asynccontextmanager
async def echo() -> AsyncIterator[tuple[Link, Opened]]:
    """Give a proxy in front of a server that sends back what it gets, and how to connect."""
    writers = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        with suppress(OSError):
            while data := await reader.read(100):
                writer.write(data)

    async def opened() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        connection = await asyncio.open_connection("127.0.0.1", int(link.url.rpartition(":")[2]))
        writers.append(connection[1])
        return connection

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with Link(f"nats://127.0.0.1:{port}", random.Random(1)) as link:
        yield link, opened
    server.close()
    for writer in writers:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


async def echoed(connection: tuple[asyncio.StreamReader, asyncio.StreamWriter], within: float = 1.0) -> bytes:
    reader, writer = connection
    writer.write(b"hello")
    async with asyncio.timeout(within):
        return await reader.read(100)


async def test_a_half_open_connection_loses_what_is_sent_until_it_is_reset() -> None:
    async with echo() as (link, opened):
        old = await opened()
        assert await echoed(old) == b"hello"
        link.silence()
        with pytest.raises(TimeoutError):
            await echoed(old, within=0.1)
        new = await opened()  # only the old connection is half-open
        assert await echoed(new) == b"hello"
        link.cut_silent()
        with pytest.raises(ConnectionResetError):
            await old[0].read(100)
        assert await echoed(new) == b"hello"


async def test_connections_are_reset_and_refused_and_delayed() -> None:
    async with echo() as (link, opened):
        old = await opened()
        assert await echoed(old) == b"hello"
        async with link.refused():
            async with link.refused():  # by another fault, which ends earlier
                with pytest.raises(ConnectionResetError):
                    await old[0].read(100)
            refused = await opened()
            with pytest.raises(ConnectionResetError):
                assert await refused[0].read(100) != b""
        async with link.delayed(0.4), link.delayed(0.01):
            began = asyncio.get_running_loop().time()
            assert await echoed(await opened()) == b"hello"
            assert asyncio.get_running_loop().time() - began > 0.02


KINDS = {name: fault.kind for name, fault in FAULTS.items()}


def test_each_kind_is_among_the_first_faults_and_occurs_by_its_weight() -> None:
    deck = Deck(KINDS, random.Random(1))
    assert set(deck.draw(len(KINDS), 99)) != set(KINDS)  # one fault at a time takes the bus away
    whole: list[str] = []
    deck = Deck(KINDS, random.Random(1))
    while len(whole) < sum(kind.weight for kind in KINDS.values()):
        whole += deck.draw(1, 1)
    assert set(whole[: len(KINDS)]) == set(KINDS)
    assert Counter(whole) == {name: kind.weight for name, kind in KINDS.items()}


def test_a_fault_without_effect_is_drawn_again() -> None:
    deck = Deck({"kill": Kind(1, False), "wipe": Kind(1, False)}, random.Random(1))
    (first,) = deck.draw(1, 0)
    deck.put_back(first)
    assert set(deck.draw(2, 0)) == {"kill", "wipe"}


@pytest.mark.parametrize("seed", range(5))
def test_groups_keep_the_pace_and_leave_one_server_at_a_time(seed: int) -> None:
    schedule = Schedule(KINDS, 60.0, 7.0, random.Random(seed))
    elapsed, seen = 0.0, Counter[str]()
    groups = []
    while elapsed < 3600.0:
        group = schedule.group(elapsed, seen.total(), 10**6)
        lasting = [fault for fault in group if KINDS[fault.kind].lasts]
        assert 0 < len(group) <= MOST
        assert all(10.0 <= fault.seconds <= 60.0 for fault in lasting)
        servers = [server for fault in lasting if (server := KINDS[fault.kind].server)]
        assert len(servers) == len(set(servers))
        elapsed += max(fault.after + fault.seconds for fault in group) + 10.0
        seen.update(fault.kind for fault in group)
        groups.append(len(lasting))
    assert 500 <= seen.total() <= 700
    assert seen.keys() == KINDS.keys()
    assert groups.count(0) > len(groups) / 6
    again = [Schedule(KINDS, 60.0, 7.0, random.Random(seed)).group(0.0, 0, 100) for _ in range(2)]
    assert again[0] == again[1]


async def test_a_fault_has_no_effect_if_nothing_is_hit(tmp_path: Path) -> None:
    supervisor = Supervisor(lambda line: None)
    program = Program("none", ("none",), tmp_path / "log")
    system = System(tmp_path, supervisor, program, "", program, "", {"binder-1": {}})
    with pytest.raises(NoEffect):
        await system.pause("binder-1", 1.0, lambda: pytest.fail("it began"))
    assert not system.runs("binder-1")


async def test_what_nats_server_denies_to_a_service_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("DEVICESHARE_RUN_DIR", str(tmp_path / "run"))
    options = Options(1, 60.0, None, (), 1.0, {}, 1.0, 60.0, 2)
    async with running(options, random.Random(1), lambda: False) as system:
        stranger, reader = await system.connect("stranger", STRANGER), await system.connect("reader", "reader")
        await stranger.jetstream.publish("ledger.1.stranger", b"has every right")
        reader.client.send("ledger.1.reader", b"may not write")
        await until(lambda: "nats-server denies" in caplog.text)
        assert (await reader.jetstream.stream_info("LEDGER")).state.last_seq == 1
        system.log("binder-1").write_text(caplog.text)
        system.links["binder-1"] = {}
        assert ["ledger.1.reader" in line for line in system.denials] == [True]
        del system.links["binder-1"]
        await reader.close()
        await stranger.close()
