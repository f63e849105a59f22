"""A stream of several servers counts as lost when it seems to be for some seconds without a gap."""

import asyncio
import random

import pytest
from deviceshare_bus.streams import follower
from deviceshare_bus.streams.creation import make_streams
from deviceshare_bus.streams.follower import CONFIRM, BusWiped, Follower
from deviceshare_bus.streams.streamstate import StreamState
from deviceshare_bus.wire.requests import Unanswered
from deviceshare_lab.world.nats_client import SimulatedConnection
from deviceshare_lab.world.nats_server import Server
from deviceshare_lab.world.virtual_time import run

FIRST = StreamState(epoch="a", server=("x",), led_since=1, messages=0, first=1, last=0, hold=0.0)
OTHER = StreamState(epoch="b", server=("x",), led_since=1, messages=0, first=1, last=0, hold=0.0)


def test_a_doubt_does_not_outlast_a_request_without_an_answer(monkeypatch):
    answers = [FIRST, OTHER, None, OTHER, OTHER]

    async def state(*_: object) -> StreamState:
        if (answer := answers.pop(0)) is None:
            raise Unanswered("no answer")
        return answer

    async def main():
        connection = SimulatedConnection(Server(random.Random(1), lambda *_: None), "test", random.Random(2))
        connection.listen(connection.requests.subject, connection.requests.answered)
        await make_streams(connection)
        reader = Follower(connection, "LEDGER")
        await reader._begin()
        for _ in range(3):
            with pytest.raises(Unanswered):
                await reader._begin()
            await asyncio.sleep(2 * CONFIRM)
        with pytest.raises(BusWiped):
            await reader._begin()

    monkeypatch.setattr(follower, "stream_state", state)
    run(main, "1")
