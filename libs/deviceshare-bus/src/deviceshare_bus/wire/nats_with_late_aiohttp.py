"""Imports nats-py, and aiohttp only when nats-py uses it, for WebSockets: it takes as long to import as all else.

To be imported before any module of nats-py. Programs that use aiohttp import it as before.
"""

import sys
from importlib import import_module
from typing import Any


class _Late:
    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self._name), name)


if "aiohttp" not in sys.modules:
    sys.modules["aiohttp"] = None  # type: ignore[assignment] # its import fails, as where it is not installed
    try:
        import nats.aio.transport
    finally:
        del sys.modules["aiohttp"]
    nats.aio.transport.aiohttp = _Late("aiohttp")  # type: ignore[assignment,attr-defined]
    nats.aio.transport.multidict = _Late("multidict")  # type: ignore[assignment,attr-defined] # imported after aiohttp
