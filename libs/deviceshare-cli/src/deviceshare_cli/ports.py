"""Free TCP ports on the loopback."""

import random
import socket
from pathlib import Path

from deviceshare_cli.errors import CommandError

LOOPBACK = "127.0.0.1"
_LOWEST = 10_000
_EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")


def is_free(port: int) -> bool:
    """Return whether a server could listen on this port of the loopback now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def free_port() -> int:
    """Return a port that nobody listens on and that the kernel gives to nobody by itself.

    A server that is started again needs its old port. A port out of the ephemeral range could meanwhile have become the
    source port of any connection, even of a client that tries to connect to this very port and so meets itself.
    """
    try:
        highest = int(_EPHEMERAL.read_text().split()[0]) - 1
    except (OSError, ValueError, IndexError):
        highest = 32_767
    if highest <= _LOWEST:
        highest = 65_535
    # Several systems that start at once should not look at the same ports one after the other.
    for port in random.sample(range(_LOWEST, highest + 1), k=min(200, highest - _LOWEST)):
        if is_free(port):
            return port
    raise CommandError(f"no free port found on {LOOPBACK} between {_LOWEST} and {highest}")


def metrics_port(wanted: int) -> int:
    """Return the port for the metrics: the wanted one, or any free one for 0. Raises CommandError where it is taken."""
    if wanted == 0:
        return free_port()
    if not is_free(wanted):
        raise CommandError(
            f"port {wanted} for the metrics is taken: choose another with --metrics-port (0 takes any free one)"
        )
    return wanted
