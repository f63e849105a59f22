"""Free TCP ports of the loopback address."""

import random
import socket
import sys
from pathlib import Path

from deviceshare_cli.errors import CommandError

LOOPBACK = "127.0.0.1"
METRICS_PORT = 8080
_LOWEST = 10_000
_EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")


def is_free(port: int) -> bool:
    """Return whether a server can listen on this port of the loopback address now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def free_port() -> int:
    """Return a free port below the ephemeral range. Raises CommandError if there is none.

    It stays reserved until this process ends: a restarted server needs its old port. The kernel could meanwhile assign
    an ephemeral port as the source port of any connection, even of a client that connects to this very port and thereby
    to itself.
    """
    try:
        highest = int(_EPHEMERAL.read_text().split()[0]) - 1
    except (OSError, ValueError, IndexError):
        highest = 32_767
    if highest <= _LOWEST:
        highest = 65_535
    # In random order: systems that start at the same time rarely try the same port.
    for port in random.sample(range(_LOWEST, highest + 1), k=min(200, highest - _LOWEST)):
        if _reserve(port):
            return port
    raise CommandError(f"no free port found on {LOOPBACK} between {_LOWEST} and {highest}")


def _reserve(port: int) -> bool:
    """Keep a port from the other systems, also while its server restarts. Returns False if it is taken.

    On Linux servers with SO_REUSEADDR, as all of ours, listen beside a socket that has it and does not listen. A socket
    without it, as here at first, cannot be bound beside another one. Elsewhere the port is only tried.
    """
    reserved = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        reserved.bind((LOOPBACK, port))
    except OSError:
        reserved.close()
        return False
    if sys.platform == "linux":
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserved.detach()  # it stays open
    else:
        reserved.close()
    return True


def _is_first(port: int) -> bool:
    """Return whether no other system has asked this of a port before; on Linux, until the process ends.

    Two systems that start at the same time find the same port free. Reserving it would not do: a port of connections
    that have just ended could not be taken again.
    """
    if sys.platform == "linux":
        name = socket.socket(socket.AF_UNIX)
        try:
            name.bind(f"\0deviceshare-port-{port}")  # in the abstract namespace: no file
        except OSError:
            name.close()
            return False
        name.detach()
    return True


def metrics_port(wanted: int | None) -> int:
    """Return the port for the metrics, any free one for 0, the usual one if it is free for None.

    Raises CommandError if the wanted one is in use.
    """
    if wanted is None:
        return METRICS_PORT if is_free(METRICS_PORT) and _is_first(METRICS_PORT) else free_port()
    if wanted == 0:
        return free_port()
    if not is_free(wanted):
        raise CommandError(
            f"port {wanted} for the metrics is in use: choose another with --metrics-port (0: any free port)"
        )
    return wanted
