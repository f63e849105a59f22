"""The framing of the NATS protocol in its three forms: as installed (compiled), as plain Python, and nats-py's own."""

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import deviceshare_bus.wire.framing
import pytest
from deviceshare_bus.wire import client, connection_reader
from nats.aio.client import Client as NatsClient

_PACKAGE = "deviceshare_bus.wire.framing"
INSTALLED, PLAIN, NATS_PY = "as installed", "plain Python", "nats-py"
ALL = (INSTALLED, PLAIN, NATS_PY)


class _Sources(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not fullname.startswith(_PACKAGE + ".") or not path:
            return None
        source = Path(path[0]) / (fullname.removeprefix(_PACKAGE + ".") + ".py")
        return importlib.util.spec_from_file_location(fullname, source)


def plain() -> Any:
    """Return the framing as plain Python, even if it is compiled."""
    installed = {name: module for name, module in sys.modules.items() if name.startswith(_PACKAGE)}
    for name in installed:
        del sys.modules[name]
    finder = _Sources()
    sys.meta_path.insert(0, finder)
    try:
        return importlib.import_module(_PACKAGE)
    finally:
        sys.meta_path.remove(finder)
        for name in [name for name in sys.modules if name.startswith(_PACKAGE)]:
            del sys.modules[name]
        sys.modules.update(installed)
        deviceshare_bus.wire.framing = installed[_PACKAGE]


def install(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let connections use one of the forms."""
    if name == PLAIN:
        for module, attributes in (
            (client, ("Received", "Malformed", "publication", "encode_headers")),
            (connection_reader, ("Parser", "Malformed")),
        ):
            for attribute in attributes:
                monkeypatch.setattr(module, attribute, getattr(PLAIN_FRAMING, attribute))
    elif name == NATS_PY:
        monkeypatch.setattr(client.Client, "_read_loop", NatsClient._read_loop)


PLAIN_FRAMING = plain()
