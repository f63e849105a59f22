"""Answers of nats-server about streams and stored messages, as it writes them (nats-server 2.12)."""

import base64
import json
from types import SimpleNamespace
from typing import Any

import pytest
from deviceshare_bus.cores.position import Stored
from deviceshare_bus.streams.streamstate import StreamState, stored_message, stream_state
from nats.js.errors import APIError, NotFoundError

INFO: dict[str, Any] = {
    "type": "io.nats.jetstream.api.v1.stream_info_response",
    "config": {"name": "LEDGER", "metadata": {"epoch": "0a1b", "hold": "15.0"}, "num_replicas": 1},
    "created": "2026-11-22T12:00:00.5Z",
    "state": {"messages": 7, "bytes": 700, "first_seq": 3, "last_seq": 12, "consumer_count": 1},
    "ts": "2026-11-22T12:00:10.75Z",
}
CLUSTER = {"leader": "n1", "leader_since": "2026-11-22T12:00:01.000000002Z", "name": "bus"}
SINCE = 1_795_348_801_000_000_002


class Requests:
    def __init__(self, answer: dict[str, Any]) -> None:
        self.answer, self.sent = answer, []
        self.requests, self.server = self, "ID"

    async def request(self, subject: str, data: bytes, timeout: float) -> SimpleNamespace:
        self.sent.append((subject, data))
        return SimpleNamespace(data=json.dumps(self.answer).encode())


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, StreamState("0a1b", ("ID", "", ""), 0, 7, 3, 12, 4.75, 700)),
        ({"cluster": CLUSTER}, StreamState("0a1b", ("n1", CLUSTER["leader_since"]), SINCE, 7, 3, 12, 4.75, 700)),
        ({"cluster": {"leader": "n1"}}, StreamState("0a1b", ("ID", "n1", ""), 0, 7, 3, 12, 4.75, 700)),
        ({"ts": "2026-11-22T12:00:20Z"}, StreamState("0a1b", ("ID", "", ""), 0, 7, 3, 12, 0.0, 700)),
        ({"ts": ""}, StreamState("0a1b", ("ID", "", ""), 0, 7, 3, 12, 15.0, 700)),
        ({"config": {}}, StreamState("", ("ID", "", ""), 0, 7, 3, 12, 0.0, 700)),
    ],
)
async def test_the_state_of_a_stream(changes, expected) -> None:
    requests = Requests(INFO | changes)
    assert await stream_state(requests, "LEDGER") == expected
    assert requests.sent == [("$JS.API.STREAM.INFO.LEDGER", b"")]


@pytest.mark.parametrize(("code", "error"), [(404, NotFoundError), (503, APIError)])
async def test_errors_of_the_server(code, error) -> None:
    answer = {"error": {"code": code, "err_code": 10059, "description": "no"}}
    with pytest.raises(error) as caught:
        await stream_state(Requests(answer), "LEDGER")
    assert (caught.value.code, caught.value.err_code, caught.value.description) == (code, 10059, "no")
    if error is NotFoundError:
        assert await stored_message(Requests(answer), "LEDGER", sequence=3) is None
    else:
        with pytest.raises(error):
            await stored_message(Requests(answer), "LEDGER", sequence=3)


@pytest.mark.parametrize("headers", [b"", b"NATS/1.0\r\nNats-TTL: 60\r\n\r\n", b"NATS/1.0\r\nX: Nats-TTL\r\n\r\n"])
async def test_a_stored_message(headers) -> None:
    message = {
        "subject": "ledger.1.n", "seq": 9, "time": "2026-11-22T12:00:01.000000002Z",
        "hdrs": base64.b64encode(headers).decode(), "data": base64.b64encode(b"body").decode(),
    }  # fmt: skip
    requests = Requests({"message": message})
    found = await stored_message(requests, "LEDGER", sequence=9)
    assert found == (Stored(9, SINCE, headers.startswith(b"NATS/1.0\r\nNats-TTL")), b"body")
    await stored_message(requests, "LEDGER", subject="ledger.1.n")
    await stored_message(requests, "LEDGER", sequence=9, subject=">")
    assert [(subject, json.loads(data)) for subject, data in requests.sent] == [
        ("$JS.API.STREAM.MSG.GET.LEDGER", {"seq": 9}),
        ("$JS.API.STREAM.MSG.GET.LEDGER", {"last_by_subj": "ledger.1.n"}),
        ("$JS.API.STREAM.MSG.GET.LEDGER", {"seq": 9, "next_by_subj": ">"}),
    ]
    assert await stored_message(Requests({}), "LEDGER", sequence=1) is None
