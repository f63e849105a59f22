"""Imports nats-py without aiohttp, which it uses for WebSockets only: its import takes as long as all else together.

To be imported before any module of nats-py. Programs that use aiohttp import it as before.
"""

import sys

if "aiohttp" not in sys.modules:
    sys.modules["aiohttp"] = None  # type: ignore[assignment] # its import fails, as where it is not installed
    try:
        import nats.aio.transport  # noqa: F401
    finally:
        del sys.modules["aiohttp"]
