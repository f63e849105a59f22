"""Writes that wait while others are being stored go out together; each gets its own answer."""

import asyncio
from collections.abc import Callable, Sequence

import pytest
from deviceshare_bus.messages.subjects import Stream
from deviceshare_bus.streams import write_queue
from deviceshare_bus.streams.publisher import Conflict, Publisher, Refused, Unknown, Write
from deviceshare_bus.streams.write_queue import BATCH_BYTES, BATCH_LIMIT, MIN_BATCH, Rejection, Result, Unit, WriteQueue
from support.waiting import until

FEW = MIN_BATCH - 1
MANY = 3 * MIN_BATCH


class Rejected(Exception):
    """None of the messages was stored, because of one of them."""


class NoBatches(Exception):
    """The stream takes no batches."""


class Scene:
    """A queue whose transmissions a test answers; messages are strings."""

    def __init__(self) -> None:
        self.sent: list[list[str]] = []
        self.open: list[Callable[[Result], None] | None] = []
        """Who hears of the result of each transmission, None once it has."""
        self.answers: dict[str, asyncio.Future[int]] = {}
        self.queue: WriteQueue[str] = WriteQueue(self._transmit, self._rejection)

    def _transmit(self, messages: Sequence[str], done: Callable[[Result], None]) -> None:
        self.sent.append(list(messages))
        self.open.append(done)

    @staticmethod
    def _rejection(error: BaseException) -> Rejection:
        if isinstance(error, NoBatches):
            return Rejection.BATCHES
        return Rejection.ONE if isinstance(error, Rejected) else Rejection.NONE

    async def put(self, *messages: str, size: int = 1) -> None:
        """Put messages as one unit; its answer has the name of the first."""
        self.answers[messages[0]] = asyncio.get_running_loop().create_future()
        await self.queue.put(Unit(messages, size, self.answers[messages[0]]))

    async def put_all(self, count: int, name: str = "m") -> None:
        for number in range(count):
            await self.put(f"{name}{number}")

    async def settle(self) -> None:
        for _ in range(10):
            await asyncio.sleep(0)

    async def answer(self, number: int, answer: int | Exception) -> None:
        """Answer a transmission with a sequence or an error."""
        done, self.open[number] = self.open[number], None
        assert done is not None, "answered twice"
        done(answer)
        await self.settle()

    def errors(self) -> dict[str, type[BaseException]]:
        """Return the answers that are errors."""
        done = {name: answer.exception() for name, answer in self.answers.items() if answer.done()}
        return {name: type(error) for name, error in done.items() if error is not None}


@pytest.fixture
async def scene() -> Scene:
    return Scene()


async def test_few_messages_are_sent_alone_and_at_once(scene) -> None:
    await scene.put_all(FEW)
    await scene.settle()
    assert [len(messages) for messages in scene.sent] == [1] * FEW
    await scene.answer(0, 7)
    assert scene.answers["m0"].result() == 7


async def test_a_burst_is_one_batch_and_what_comes_meanwhile_is_the_next(scene) -> None:
    await scene.put_all(MANY)
    await scene.settle()
    assert [len(messages) for messages in scene.sent] == [MANY]
    await scene.put_all(MANY, "n")
    await scene.put("late")
    await scene.settle()
    assert len(scene.sent) == 1
    await scene.answer(0, 100)
    assert [scene.answers[f"m{number}"].result() for number in (0, MANY - 1)] == [101 - MANY, 100]
    assert [len(messages) for messages in scene.sent] == [MANY, MANY + 1]


async def test_messages_wait_while_many_single_ones_are_being_stored(scene) -> None:
    await scene.put_all(FEW)
    await scene.settle()
    await scene.put_all(2, "n")
    await scene.settle()
    assert len(scene.sent) == FEW
    await scene.answer(0, 1)
    assert scene.sent[FEW:] == [["n0"], ["n1"]]


async def test_nothing_waits_long_for_a_server_that_does_not_answer(scene, monkeypatch) -> None:
    monkeypatch.setattr(write_queue, "PATIENCE", 0.05)
    await scene.put_all(MANY)
    await scene.settle()
    await scene.put("late")
    await until(lambda: len(scene.sent) >= 2, seconds=2)
    assert scene.sent[1] == ["late"]


async def test_a_batch_is_no_larger_than_the_server_takes(scene) -> None:
    await scene.put_all(BATCH_LIMIT + 1)
    for number in range(2 * MANY):
        await scene.put(f"large{number}", size=BATCH_BYTES // MANY + 1)
    await scene.settle()
    await scene.answer(0, BATCH_LIMIT)
    assert [len(messages) for messages in scene.sent[:2]] == [BATCH_LIMIT, MANY]


async def test_messages_that_belong_together_stay_together(scene) -> None:
    await scene.put_all(MANY)
    await scene.put("gang0", "gang1", "gang2")
    await scene.settle()
    await scene.answer(0, Rejected())
    while any(scene.open):
        for number, done in enumerate(scene.open):
            if done is not None:
                await scene.answer(number, 1000 + number)
    assert [messages for messages in scene.sent if "gang0" in messages][-1][-3:] == ["gang0", "gang1", "gang2"]
    assert not scene.errors()


@pytest.mark.parametrize("bad", [0, 1, MANY // 2, MANY - 1])
async def test_a_rejected_batch_is_divided_until_only_the_cause_has_failed(scene, bad: int) -> None:
    await scene.put_all(MANY)
    await scene.settle()
    number = 0
    while number < len(scene.sent):
        await scene.answer(number, Rejected() if f"m{bad}" in scene.sent[number] else 1000 * number + 500)
        number += 1
    assert all(answer.done() for answer in scene.answers.values())
    assert scene.errors() == {f"m{bad}": Rejected}


async def test_all_of_a_batch_are_unknown_if_its_answer_is(scene) -> None:
    await scene.put_all(MANY)
    await scene.settle()
    await scene.answer(0, TimeoutError())
    assert scene.errors() == dict.fromkeys(scene.answers, TimeoutError)
    assert len(scene.sent) == 1


async def test_a_stream_without_batches_gets_single_messages(scene) -> None:
    await scene.put_all(MANY)
    await scene.settle()
    await scene.answer(0, NoBatches())
    await scene.put_all(MANY, "n")
    await scene.settle()
    assert [len(messages) for messages in scene.sent[1:]] == [1] * 2 * MANY


async def test_a_defect_of_the_transmission_reaches_every_writer(scene) -> None:
    def fail(_: Sequence[str], done: Callable[[Result], None]) -> None:
        raise ZeroDivisionError

    scene.queue._transmit = fail
    await scene.put("one")
    await scene.put("two")
    await scene.settle()
    assert scene.errors() == {"one": ZeroDivisionError, "two": ZeroDivisionError}


async def test_drain_waits_until_everything_was_sent(scene) -> None:
    await scene.put_all(FEW)
    await scene.queue.drain()
    assert len(scene.sent) == FEW


async def test_one_conflict_in_a_burst_leaves_the_others_written(connection, publisher) -> None:
    await publisher.write(Write("ledger.1.n7", b"before"))
    futures = [await publisher.send(Write(f"ledger.1.n{number}", b"x", 0), ttl=100.0) for number in range(40)]
    answers = await asyncio.gather(*futures, return_exceptions=True)
    assert [number for number, answer in enumerate(answers) if isinstance(answer, Conflict)] == [7]
    for number, answer in enumerate(answers):
        if number != 7:
            message = await connection.jetstream.get_msg(Stream.LEDGER, answer)
            assert (message.subject, message.headers["Nats-TTL"]) == (f"ledger.1.n{number}", "100")


async def test_a_stream_of_an_earlier_version_takes_every_write(connection, publisher) -> None:
    info = await connection.jetstream.stream_info(Stream.CLUSTER)
    info.config.allow_atomic = False
    await connection.jetstream.update_stream(info.config)
    futures = [await publisher.send(Write(f"cluster.pod.n{number}", b"x", 0)) for number in range(MANY)]
    assert sorted(await asyncio.gather(*futures)) == list(range(1, MANY + 1))
    with pytest.raises(Refused, match="atomic"):
        await (await publisher.send_atomic([Write("cluster.pod.a", b"x"), Write("cluster.pod.b", b"x")]))


async def test_a_burst_without_an_answer_is_unknown_and_stored_once(connection, nats_server) -> None:
    publisher = Publisher(connection, timeout=0.5)
    nats_server.freeze()
    futures = [await publisher.send(Write(f"ledger.1.n{number}", b"x", 0)) for number in range(MANY)]
    answers = await asyncio.gather(*futures, return_exceptions=True)
    nats_server.thaw()
    assert all(isinstance(answer, Unknown) for answer in answers)
    again = [await publisher.send(Write(f"ledger.1.n{number}", b"y", 0)) for number in range(MANY)]
    assert all(isinstance(answer, Conflict) for answer in await asyncio.gather(*again, return_exceptions=True))
    assert (await connection.jetstream.stream_info(Stream.LEDGER)).state.last_seq == MANY
