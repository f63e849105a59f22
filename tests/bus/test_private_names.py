"""Private names of nats-py are used in two modules of ``wire/`` alone, and the installed version has them.

After an update of nats-py read what it has changed in the methods below, then change :data:`CHECKED`.
"""

import ast
import inspect
import re
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest
from deviceshare_bus.wire import client as client_module
from deviceshare_bus.wire.client import Client
from nats.aio.client import Client as NatsClient
from nats.aio.transport import TcpTransport

ROOT = Path(__file__).parents[2]
WIRE = ROOT / "libs/deviceshare-bus/src/deviceshare_bus/wire"
CHECKED = "2.16.0"
"""The version of nats-py whose use of these names was read."""
OVERRIDDEN = {
    "_connect_command": "adds the key that the file has now, and refuses a server without TLS or of a stranger",
    "_connect_to_server": "closes a transport that nats-py leaves open, and replaces the new one",
    "_flush_pending": "heeds a cancellation that arrives while it waits",
    "_process_msg": "passes messages to listeners where nats-py reads",
    "_read_loop": "reads with our parser",
    "_send_ping": "pings after what waits",
}
USED = {
    "_error_cb": "called with an error of the connection, before the reconnect",
    "_inbox_prefix": "set to the prefix to which the user has a right",
    "_io_writer": "the transport's stream: its buffer, protocol and certificate",
    "_max_payload": "what the server takes, from INFO",
    "_pending": "what waits for the server; taken in one turn of the event loop",
    "_pending_data_size": "its bytes",
    "_pongs": "futures of the pings under way, in order",
    "_process_err": "called with an error of the server",
    "_process_info": "called with INFO of the server",
    "_process_op_err": "begins the reconnect",
    "_process_ping": "called for a PING",
    "_process_pong": "called for a PONG",
    "_public_nkey": "set to the key that the file has now",
    "_server_info": "the id of the server",
    "_sid": "the number of the latest subscription",
    "_status": "whether the client is connected",
    "_subs": "the subscriptions, which nats-py sends again after a reconnect",
    "_transport": "the connection",
}
MODULES = (WIRE / "client.py", WIRE / "transport.py")
TESTS_OF_WIRE = (ROOT / "tests/bus", ROOT / "tests/support/framings.py")
"""They may look into the client."""


def names_of_nats_py() -> set[str]:
    names = {*dir(NatsClient()), *dir(TcpTransport())}
    return {name for name in names if name.startswith("_") and not name.startswith("__")}


NAMES = names_of_nats_py()


def uses_in(tree: ast.AST, own: bool = False) -> Iterator[str]:
    """Yield the private names of nats-py that code uses; ``own``: attributes of ``self`` may be nats-py's.

    They may in a class that derives from one of nats-py, or of the modules that wrap it.
    """
    wrapped = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        and (node.module or "").startswith(
            ("nats.aio", "deviceshare_bus.wire.client", "deviceshare_bus.wire.transport")
        )
        for alias in node.names
    }
    yield from _uses(tree, wrapped, own)


def _uses(tree: ast.AST, wrapped: set[str], own: bool) -> Iterator[str]:
    for node in ast.iter_child_nodes(tree):
        inside = own
        match node:
            case ast.ClassDef(bases=bases):
                inside = own or any(isinstance(base, ast.Name) and base.id in wrapped for base in bases)
            case ast.Attribute(value=ast.Name("self" | "cls"), attr=name) if name in NAMES and own:
                yield name
            case ast.Attribute(value=ast.Name("self" | "cls")):
                pass
            case ast.Attribute(attr=name) if name in NAMES:
                yield name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) if name in NAMES and own:
                yield name
            case ast.Constant(value=str(name)) if name in NAMES:
                yield name
        yield from _uses(node, wrapped, inside)


def test_the_installed_version_is_the_one_that_was_checked() -> None:
    assert version("nats-py") == CHECKED


@pytest.mark.parametrize("name", sorted({**OVERRIDDEN, **USED}))
def test_the_installed_version_has_each_name(name: str) -> None:
    assert name in NAMES


@pytest.mark.parametrize("name", sorted(OVERRIDDEN))
def test_an_overridden_method_takes_what_nats_py_passes(name: str) -> None:
    assert list(inspect.signature(getattr(Client, name)).parameters) == list(
        inspect.signature(getattr(NatsClient, name)).parameters
    )


def test_two_modules_use_exactly_these_names() -> None:
    names = {name for module in MODULES for name in uses_in(ast.parse(module.read_text()))}
    assert names == {*OVERRIDDEN, *USED}
    assert {name for name in OVERRIDDEN if name in vars(Client)} == set(OVERRIDDEN)


def test_a_client_is_made_only_if_nats_py_has_each_name() -> None:
    assert {*client_module._PRIVATE, "_io_writer"} == {*OVERRIDDEN, *USED}


def test_nothing_else_uses_a_private_name_of_nats_py() -> None:
    mentioned = re.compile(rf"\b(?:{'|'.join(NAMES)})\b")
    places = [
        f"{path.relative_to(ROOT)}: {name}"
        for directory in ("libs", "services", "lab", "tests")
        for path in sorted((ROOT / directory).rglob("*.py"))
        if path not in MODULES and not any(path.is_relative_to(tests) for tests in TESTS_OF_WIRE)
        if mentioned.search(code := path.read_text())
        for name in uses_in(ast.parse(code))
    ]
    assert places == []


@pytest.mark.parametrize(
    "code",
    [
        "connection.client._subs",
        "self.client._transport",
        "del client._pending[0]",
        "getattr(client, '_status')",
        "from nats.aio.client import Client as C\nclass D(C):\n    def _read_loop(self): pass",
        "from deviceshare_bus.wire.client import Client\nclass D(Client):\n    def a(self): return self._sid",
    ],
)
def test_each_way_to_use_a_name_is_seen(code: str) -> None:
    assert list(uses_in(ast.parse(code)))


def test_the_own_names_of_other_classes_are_no_use() -> None:
    assert not list(uses_in(ast.parse("class A:\n    def _status(self): return self._pending, self._transport")))
