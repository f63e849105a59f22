"""Results of a write: its sequence, a conflict or unknown; a batch is written whole or not at all."""

import asyncio

import pytest
from deviceshare_bus.messages.subjects import Stream
from deviceshare_bus.streams.publisher import BATCH_LIMIT, Conflict, Publisher, Refused, Unknown, Write
from deviceshare_bus.wire.connection import Connection


async def last(connection: Connection, subject: str) -> bytes:
    return (await connection.jetstream.get_last_msg(Stream.LEDGER, subject)).data or b""


async def test_the_second_writer_gets_a_conflict_and_writes_nothing(connection, publisher) -> None:
    first = await publisher.write(Write("ledger.1.a.example.com", b"first", 0))
    with pytest.raises(Conflict):
        await publisher.write(Write("ledger.1.a.example.com", b"second", 0))
    assert await last(connection, "ledger.1.a.example.com") == b"first"
    await publisher.write(Write("ledger.1.a.example.com", b"third", first))
    assert await last(connection, "ledger.1.a.example.com") == b"third"


async def test_thousands_in_flight_each_get_their_own_answer(connection) -> None:
    publisher = Publisher(connection, timeout=20.0)  # they share one server with whatever else the machine does
    futures = [await publisher.send(Write(f"ledger.1.n{number}", b"x", 0)) for number in range(3000)]
    futures += [await publisher.send(Write(f"ledger.1.n{number}", b"y", 0)) for number in range(3000)]
    answers = await asyncio.gather(*futures, return_exceptions=True)
    assert sorted(answers[:3000]) == list(range(1, 3001))
    assert all(isinstance(answer, Conflict) for answer in answers[3000:])
    assert connection.requests.in_flight == 0


async def test_a_batch_is_written_whole_and_without_a_gap(connection, publisher) -> None:
    await publisher.write(Write("ledger.1.other", b""))
    writes = [Write(f"ledger.1.n{number}", b"gang", 0) for number in range(BATCH_LIMIT)]
    end = await (await publisher.send_atomic(writes))
    assert end == 1 + BATCH_LIMIT
    messages = [await connection.jetstream.get_msg(Stream.LEDGER, sequence) for sequence in (2, end)]
    assert [message.subject for message in messages] == ["ledger.1.n0", f"ledger.1.n{BATCH_LIMIT - 1}"]


@pytest.mark.parametrize("at", [0, 3, 6])
async def test_a_conflict_anywhere_in_a_batch_leaves_nothing_behind(connection, publisher, at: int) -> None:
    await publisher.write(Write(f"ledger.1.n{at}", b"before", 0))
    writes = [Write(f"ledger.1.n{number}", b"gang", 0) for number in range(7)]
    with pytest.raises(Conflict):
        await (await publisher.send_atomic(writes))
    assert (await connection.jetstream.stream_info(Stream.LEDGER)).state.messages == 1
    assert await last(connection, f"ledger.1.n{at}") == b"before"


GUARD = Write("ledger.lease.placement.a", b"lease", unless="ledger.fence.placement.a")


async def test_writes_under_a_guard_have_their_own_sequences_and_are_stored_with_it(connection, publisher) -> None:
    sent = [await publisher.send_atomic([Write(f"ledger.1.n{number}", b"x", 0)], GUARD) for number in range(50)]
    wide = await publisher.send_atomic([Write(f"ledger.2.n{number}", b"x", 0) for number in range(5)], GUARD)
    sequences = await asyncio.gather(*sent)
    for number, sequence in enumerate(sequences):
        assert (await connection.jetstream.get_msg(Stream.LEDGER, sequence)).subject == f"ledger.1.n{number}"
    assert (await connection.jetstream.get_msg(Stream.LEDGER, await wide)).subject == "ledger.2.n4"
    assert await last(connection, GUARD.subject) == b"lease"


async def test_a_conflict_under_a_guard_concerns_one_write(connection, publisher) -> None:
    await publisher.write(Write("ledger.1.n7", b"before", 0))
    sent = [await publisher.send_atomic([Write(f"ledger.1.n{number}", b"x", 0)], GUARD) for number in range(20)]
    answers = await asyncio.gather(*sent, return_exceptions=True)
    assert [number for number, answer in enumerate(answers) if isinstance(answer, Conflict)] == [7]


async def test_nothing_is_stored_under_the_guard_of_a_member_that_has_ended(connection, publisher) -> None:
    await publisher.write(Write(GUARD.unless, b"fence"))
    sent = [await publisher.send_atomic([Write(f"ledger.1.n{number}", b"x", 0)], GUARD) for number in range(20)]
    answers = await asyncio.gather(*sent, return_exceptions=True)
    assert all(isinstance(answer, Conflict) for answer in answers)
    assert (await connection.jetstream.stream_info(Stream.LEDGER)).state.messages == 1


async def test_the_widest_write_has_room_for_its_guard(publisher) -> None:
    writes = [Write(f"ledger.1.n{number}", b"x", 0) for number in range(BATCH_LIMIT - 1)]
    assert await (await publisher.send_atomic(writes, GUARD)) == BATCH_LIMIT
    with pytest.raises(ValueError, match="1 to 1000"):
        await publisher.send_atomic([*writes, Write("ledger.1.last", b"x")], GUARD)


async def test_a_batch_that_is_too_long_is_our_own_mistake(publisher) -> None:
    with pytest.raises(ValueError, match="1 to 1000"):
        await publisher.send_atomic([Write("ledger.1.n", b"")] * (BATCH_LIMIT + 1))


async def test_a_write_without_a_stream_is_unknown(publisher) -> None:
    with pytest.raises(Unknown, match="no stream"):
        await publisher.write(Write("nowhere.at.all", b"x"))


async def test_a_write_that_the_stream_does_not_allow_is_refused(publisher, connection) -> None:
    info = await connection.jetstream.stream_info(Stream.LEDGER)
    info.config.max_msg_size = 100
    await connection.jetstream.update_stream(info.config)
    with pytest.raises(Refused):
        await publisher.write(Write("ledger.1.a", b"x" * 200))


async def test_a_silent_server_makes_it_unknown_and_a_late_answer_changes_nothing(connection, nats_server) -> None:
    publisher = Publisher(connection, timeout=0.5)
    nats_server.freeze()
    future = await publisher.send(Write("ledger.1.a", b"slow", 0))
    try:
        with pytest.raises(Unknown, match=r"0\.5 s"):
            await future
    finally:
        nats_server.thaw()
    with pytest.raises(Conflict):
        await publisher.write(Write("ledger.1.a", b"again", 0))
    assert await last(connection, "ledger.1.a") == b"slow"


@pytest.mark.parametrize("bad", ["ledger.1.b\r\nNats-Rollup: all", "ledger.1.b\n"])
async def test_a_subject_that_would_end_its_header_is_refused_and_others_are_written(publisher, bad: str) -> None:
    sent = [
        await publisher.send(Write(f"ledger.1.n{number}", b"x", unless=bad if number == 3 else "ledger.1.none"))
        for number in range(20)
    ]
    answers = await asyncio.gather(*sent, return_exceptions=True)
    assert [number for number, answer in enumerate(answers) if isinstance(answer, Refused)] == [3]
    guarded = await publisher.send_atomic([Write("ledger.1.g", b"x", 0)], GUARD._replace(unless=bad))
    with pytest.raises(Refused, match="not a header"):
        await guarded
    assert publisher.results["LEDGER", "written"] == 19
