"""The connection of nats-py's client to nats-server, as :mod:`.client` needs it."""

import asyncio
import ssl
from typing import cast

from nats.aio.transport import TcpTransport

from deviceshare_bus.wire.loopback import stranger


class NatsTransport(TcpTransport):
    """A transport of nats-py whose failed writes are OSErrors, as nats-py expects.

    uvloop raises RuntimeError for a write to a connection that the server has reset. nats-py would raise it from
    ``connect``, and end its reconnecting without a report.
    """

    def __init__(self, opened: TcpTransport) -> None:
        self.__dict__.update(opened.__dict__)

    def write(self, payload: bytes) -> None:
        """Write. Raises OSError."""
        try:
            super().write(payload)  # type: ignore[no-untyped-call]
        except RuntimeError as error:
            raise ConnectionResetError(str(error)) from error

    def writelines(self, payload: list[bytes]) -> None:
        """Write. Raises OSError."""
        try:
            super().writelines(payload)  # type: ignore[no-untyped-call]
        except RuntimeError as error:
            raise ConnectionResetError(str(error)) from error

    @property
    def stream(self) -> asyncio.Transport:
        """The connection of the event loop, with TLS if there is any."""
        assert self._io_writer is not None
        return cast(asyncio.Transport, self._io_writer.transport)

    @property
    def ended(self) -> bool:
        """Whether the server has ended the connection."""
        return bool(super().at_eof()) or self.stream.is_closing()  # type: ignore[no-untyped-call]

    @property
    def certificate_end(self) -> float | None:
        """Until when the server's certificate is valid, in unix seconds; None without TLS."""
        shown = self.stream.get_extra_info("peercert")
        return float(ssl.cert_time_to_seconds(shown["notAfter"])) if shown else None

    @property
    def encrypted(self) -> bool:
        """Whether the connection has TLS."""
        return self.stream.get_extra_info("cipher") is not None

    def require_known_server(self, seed: str) -> None:
        """Raise ConnectionError if the server is a process of a stranger on this machine; ``seed``: the client's file.

        With TLS the certificate has shown who it is.
        """
        if self.encrypted:
            return
        peer, own = (self.stream.get_extra_info(name) for name in ("peername", "sockname"))
        if (user := stranger(peer, own, seed)) is not None:
            raise ConnectionError(
                f"a process of {user} listens in place of nats-server; expected: tls://, or a server of this user"
            )
