"""Which user of the machine runs the process at the other end of a loopback connection.

Without TLS a client proves its identity to nats-server, but not nats-server to the client. Any user of the machine may
listen on a loopback port as soon as nats-server has ended.
"""

import ipaddress
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_TABLES = {4: Path("/proc/net/tcp"), 6: Path("/proc/net/tcp6")}
"""The connections of the machine, by the version of IP. Other systems than Linux have no such files."""
_LOCAL, _REMOTE, _USER = 1, 2, 7
"""Columns of the tables."""
_MAPPED = bytes(10) + b"\xff\xff"
"""What precedes an address of IPv4 that is written as one of IPv6."""
_READS = 3
"""How often the tables are read: a row can be missed while other connections come and go."""


def users_at(peer: tuple[Any, ...], own: tuple[Any, ...]) -> set[int] | None:
    """Return the ids of the users whose sockets are at the other end of a connection.

    ``peer`` and ``own`` are the addresses of the two ends, as sockets give them. Empty if the peer is in no table. None
    if the peer has no loopback address, or the tables cannot be read.
    """
    try:
        here, there = _address(own), _address(peer)
    except ValueError:
        return None
    if not there.is_loopback:
        return None
    ends = _written(there.packed, peer[1]), _written(here.packed, own[1])
    places = [(_TABLES[there.version], ends)]
    if there.version == 4:
        # A socket of IPv6 that accepts IPv4, too.
        mapped = _written(_MAPPED + there.packed, peer[1]), _written(_MAPPED + here.packed, own[1])
        places.append((_TABLES[6], mapped))
    try:
        for _ in range(_READS):
            tables = [(_rows(table), wanted) for table, wanted in places if table.exists()]
            if not tables:
                return None
            if users := {user for rows, wanted in tables for *found, user in rows if tuple(found) == wanted}:
                return users
    except OSError:
        return None
    return set()


def stranger(peer: tuple[Any, ...], own: tuple[Any, ...], seed: str) -> str | None:
    """Return the user at the other end of a connection, for messages, if it may not be nats-server, else None.

    The user of this process may, the owner of the file ``seed``, for whom the credentials were made, and root, who
    could read the file. A loopback connection does not leave the machine: who is in no table is a stranger.
    """
    users = users_at(peer, own)
    if users is None:
        return None
    if not users:
        return "an unknown user"
    try:
        owner = Path(seed).stat().st_uid
    except OSError:
        owner = 0
    strangers = users - {0, os.geteuid(), owner}
    return f"user {min(strangers)}" if strangers else None


def _address(end: tuple[Any, ...]) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """Return the address of an end; IPv4 on a socket of IPv6 is IPv4. Raises ValueError."""
    address = ipaddress.ip_address(end[0])
    return (address.ipv4_mapped or address) if isinstance(address, ipaddress.IPv6Address) else address


def _written(packed: bytes, port: int) -> str:
    """Return an address and port as the tables write them: 32-bit words of the address in the machine's byte order."""
    words = (packed[at : at + 4] for at in range(0, len(packed), 4))
    if sys.byteorder == "little":
        words = (word[::-1] for word in words)
    return f"{b''.join(words).hex().upper()}:{port:04X}"


def _rows(table: Path) -> Iterator[tuple[str, str, int]]:
    """Return the local and remote ends of the connections of the machine, and their users."""
    for line in table.read_text("ascii").splitlines()[1:]:
        columns = line.split()
        yield columns[_LOCAL], columns[_REMOTE], int(columns[_USER])
