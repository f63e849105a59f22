"""The parser gives the same messages as nats-py's, however the bytes are divided; malformed input is an error."""

import asyncio
import json
import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import deviceshare_bus.wire.framing
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from nats.aio.client import Client as NatsClient
from nats.errors import BadSubjectError
from nats.protocol import command
from nats.protocol.parser import Parser as NatsParser
from support.framings import PLAIN_FRAMING

FORMS = [pytest.param(deviceshare_bus.wire.framing, id="installed"), pytest.param(PLAIN_FRAMING, id="plain")]
every_form = pytest.mark.parametrize("framing", FORMS)

Heard = tuple[Any, ...]


class Oracle:
    """What nats-py's parser calls."""

    def __init__(self) -> None:
        self.heard: list[Heard] = []

    async def _process_msg(self, sid: int, subject: bytes, reply: bytes, data: bytes, head: bytes | None) -> None:
        self.heard.append(("message", sid, subject, reply, data, head or b""))

    async def _process_ping(self) -> None:
        self.heard.append((b"PING",))

    async def _process_pong(self) -> None:
        self.heard.append((b"PONG",))

    async def _process_err(self, error: str) -> None:
        self.heard.append((b"-ERR", error))

    async def _process_info(self, info: dict[str, Any]) -> None:
        self.heard.append((b"INFO", json.dumps(info)))


def of_nats_py(pieces: Sequence[bytes]) -> list[Heard]:
    oracle = Oracle()
    parser = NatsParser(oracle)

    async def parse() -> None:
        for piece in pieces:
            await parser.parse(piece)

    asyncio.run(parse())
    return oracle.heard


def of_ours(framing: Any, pieces: Sequence[bytes], listening: Sequence[int]) -> list[Heard]:
    """Return what a parser gives; the messages of the subscriptions ``listening`` go to a listener."""
    heard: list[Heard] = []
    failures: list[Exception] = []

    def listener(sid: int) -> Any:
        def listen(message: Any) -> None:
            subject, reply = message.subject.encode(), message.reply.encode()
            heard.append(("message", sid, subject, reply, message.data, message.head))

        return listen

    parser = framing.Parser({sid: listener(sid) for sid in listening}, failures.append)
    for piece in pieces:
        for other in parser.feed(piece):
            if other.sid:
                heard.append(("message", other.sid, other.subject, other.reply, other.data, other.head))
            elif other.line.startswith(b"-ERR"):
                heard.append((b"-ERR", other.line[4:].strip().decode().lower()))
            elif other.line.startswith(b"INFO"):
                heard.append((b"INFO", json.dumps(json.loads(other.line[4:]))))
            elif not other.line.startswith(b"+OK"):
                heard.append((other.line[:4],))
    assert not failures
    return heard


def divided(data: bytes, cuts: Sequence[int]) -> list[bytes]:
    points = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return [data[start:end] for start, end in pairwise(points)]


words = st.from_regex(re.compile(rb"[!-~]{1,12}"), fullmatch=True)
payloads = st.binary(max_size=60) | st.sampled_from([b"\r\n", b"MSG a 1 5\r\nhello\r\n", b"PING\r\n", b"x" * 5000])
heads = st.sampled_from([b"NATS/1.0\r\n\r\n", b"NATS/1.0 503\r\n\r\n", b"NATS/1.0\r\nA: b\r\nNats-TTL: 5\r\n\r\n"])


@st.composite
def operations(draw: st.DrawFn) -> bytes:
    kind = draw(st.sampled_from(["MSG", "MSG", "MSG", "HMSG", "HMSG", "line"]))
    if kind == "line":
        lines = [b"PING", b"PONG", b"+OK", b"-ERR 'Permissions Violation for \"x\"'", b'INFO {"a": [1, "b"]}', b"PING "]
        return draw(st.sampled_from(lines)) + b"\r\n"
    data = draw(payloads)
    line = [kind.encode(), draw(words), str(draw(st.integers(1, 4))).encode()]
    if draw(st.booleans()):
        line.append(draw(words))
    head = draw(heads) if kind == "HMSG" else b""
    if head:
        line.append(str(len(head)).encode())
    line.append(str(len(head + data)).encode())
    return b" ".join(line) + b"\r\n" + head + data + b"\r\n"


@every_form
@given(
    sent=st.lists(operations(), max_size=8).map(b"".join),
    cuts=st.lists(st.integers(0, 20_000), max_size=12),
    listening=st.sets(st.integers(1, 4)),
)
def test_any_division_gives_the_messages_that_nats_py_gives(framing, sent, cuts, listening) -> None:
    """A piece of bytes passes listeners first: their messages, and all others, each keep their order."""
    expected = of_nats_py([sent])
    got = of_ours(framing, divided(sent, cuts), list(listening))

    def listened(heard: Heard) -> bool:
        return heard[0] == "message" and heard[1] in listening

    assert [each for each in got if listened(each)] == [each for each in expected if listened(each)]
    assert [each for each in got if not listened(each)] == [each for each in expected if not listened(each)]


@every_form
def test_bytes_one_by_one_give_the_same(framing) -> None:
    sent = b'INFO {"a": 1}\r\nPING\r\nMSG a.b 1 reply 5\r\nhello\r\nHMSG a 2 12 14\r\nNATS/1.0\r\n\r\nhi\r\n+OK\r\n'
    pieces = [sent[at : at + 1] for at in range(len(sent))]
    assert of_ours(framing, pieces, [1]) == of_nats_py([sent])


@every_form
@pytest.mark.parametrize(
    "sent",
    [
        b"HELLO\r\n",
        b"\r\n",
        b"MSGS a 1 2\r\nhi\r\n",
        b"MSG\r\n",
        b"HMSG\r\n",
        b"HMSG 1\r\n",
        b"MSG a 1\r\n",
        b"MSG a 1 b c 2\r\nhi\r\n",
        b"MSG a x 2\r\nhi\r\n",
        b"MSG  a 1 2\r\nhi\r\n",
        b"MSG a\t1 2\r\nhi\r\n",
        b"MSG a 1 -2\r\nhi\r\n",
        b"MSG a 1 1_0\r\n0123456789\r\n",
        b"MSG a 1 2\r\nhi!!",
        b"MSG a 1 99999999999999999999999\r\n",
        b"MSG a 1 %d\r\n" % (deviceshare_bus.wire.framing.MAX_MESSAGE + 1),
        b"HMSG a 1 5 2\r\nhi\r\n",
        b"HMSG a 1 5\r\n",
        b"x" * (deviceshare_bus.wire.framing.MAX_LINE + 1),
        b"INFO " + b"x" * (deviceshare_bus.wire.framing.MAX_LINE + 1) + b"\r\n",
    ],
)
@pytest.mark.parametrize("whole", [True, False])
def test_what_is_not_the_protocol_is_an_error(framing, sent: bytes, whole: bool) -> None:
    parser = framing.Parser({}, lambda error: None)
    pieces = [sent] if whole or len(sent) > 1000 else [sent[at : at + 1] for at in range(len(sent))]
    with pytest.raises(framing.Malformed):
        any(parser.feed(piece) for piece in pieces)


@every_form
def test_a_listener_that_raises_or_ends_itself_does_not_disturb_the_others(framing) -> None:
    failures: list[Exception] = []
    heard: list[str] = []
    listeners: dict[int, Any] = {}

    def ending(message: Any) -> None:
        del listeners[1]
        raise KeyError(message.subject)

    listeners |= {1: ending, 2: lambda message: heard.append(message.subject)}
    others = framing.Parser(listeners, failures.append).feed(b"MSG a 1 0\r\n\r\nMSG b 2 0\r\n\r\nMSG c 1 0\r\n\r\n")
    assert [str(error) for error in failures] == ["'a'"]
    assert heard == ["b"]
    assert [other.subject for other in others] == [b"c"]


@every_form
def test_a_subject_that_is_not_utf_8_is_delivered(framing) -> None:
    heard: list[str] = []
    framing.Parser({1: lambda message: heard.append(message.subject)}, heard.append).feed(b"MSG a\xff 1 0\r\n\r\n")
    assert heard == ["a\ufffd"]


@every_form
@given(
    subject=st.from_regex(re.compile(rb"[!-~\t\x0b\x0c\x1c-\x1f\x85]{1,12}"), fullmatch=True),
    data=payloads,
    cuts=st.lists(st.integers(0, 20_000), max_size=4),
)
@example(subject=b"cluster.node.a\x0bb", data=b"", cuts=[])
@example(subject=b"cluster.node.a\x0c", data=b"", cuts=[])
def test_only_a_space_ends_a_subject(framing, subject: bytes, data: bytes, cuts: list[int]) -> None:
    """nats-py's parser also ends it at other white space."""
    heard: list[tuple[str, str, bytes]] = []
    parser = framing.Parser({1: lambda m: heard.append((m.subject, m.reply, m.data))}, heard.append)
    sent = b"MSG %b 1 %b %d\r\n%b\r\n" % (subject, subject, len(data), data)
    for piece in divided(sent, cuts):
        parser.feed(piece)
    text = subject.decode("utf-8", "replace")
    assert heard == [(text, text, data)]


HEADS = [
    b"NATS/1.0\r\nNats-Sequence: 12\r\nNats-Subject: a b\r\n\r\n",
    b"NATS/1.0 503\r\n\r\n",
    b"NATS/1.0 404 Message Not Found\r\n\r\n",
    b"NATS/1.0 409 Consumer Deleted\r\n\r\n",
    b"NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Consumer: 1016\r\nNats-Last-Stream: 1024\r\n\r\n",
    b"NATS/1.0 100 FlowControl Request\r\n\r\n",
    b"NATS/1.0\r\nA:b\r\nA: c\r\nB:  d  \r\nbad name: e\r\nno colon\r\nC: \xc3\xa9\r\n\r\n",
]


@every_form
@pytest.mark.parametrize("head", HEADS)
async def test_headers_and_statuses_are_those_of_nats_py(framing, head: bytes) -> None:
    expected = await NatsClient()._process_headers(head) or {}
    message = framing.Received("a", "", b"", head)
    assert message.headers == expected
    assert message.status == expected.get("Status", "")
    for name, value in expected.items():
        if name not in ("Status", "Description"):
            assert message.field(name.encode()).decode() == value
    assert message.field(b"Missing") == b""


@every_form
def test_a_status_that_a_writer_forges_is_none(framing) -> None:
    assert framing.Received("a", "", b"", b"NATS/1.0\r\nStatus: 503\r\n\r\n").status == ""


@every_form
@pytest.mark.parametrize("around", [("", ""), ("_.account.", ".random")])
def test_the_reply_of_a_delivery_has_its_numbers(framing, around: tuple[str, str]) -> None:
    before, after = around
    reply = f"$JS.ACK.{before}LEDGER.consumer.1.42.7.1700000000123456789.3{after}"
    assert framing.Received("a", reply, b"").delivery() == (42, 1700000000123456789, 7, 3)
    with pytest.raises(ValueError, match="not the reply"):
        framing.Received("a", "$JS.FC.LEDGER.consumer.x", b"").delivery()


@every_form
@given(subject=words, reply=words | st.just(b""), data=payloads, named=st.booleans())
def test_messages_are_sent_as_nats_py_sends_them(framing, subject, reply, data, named) -> None:
    to, answer = subject.decode(), reply.decode()
    if named:
        head = framing.encode_headers({"A": "b", "Nats-TTL": "5"})
        assert framing.publication(to, answer, head, data) == command.hpub_cmd(to, answer, head, data)
    else:
        assert framing.publication(to, answer, b"", data) == command.pub_cmd(to, answer, data)


@every_form
@pytest.mark.parametrize("subject", ["", "a b", "a\r\nPING", "a\tb", "a\n"])
def test_a_subject_cannot_begin_another_operation(framing, subject: str) -> None:
    with pytest.raises(BadSubjectError):
        framing.publication(subject, "", b"", b"")
    if subject:
        with pytest.raises(BadSubjectError):
            framing.publication("a", subject, b"", b"")


@every_form
@pytest.mark.parametrize("fields", [{"A": "b\r\nB: c"}, {"A\n": "b"}, {"": "b"}, {"A:": "b"}, {"A B": "c"}])
def test_a_header_cannot_begin_another_one(framing, fields: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="not a header"):
        framing.encode_headers(fields)
