"""Host ports in use, by the rule of kube-scheduler's plugin NodePorts. Nodes without host ports take no memory."""

from collections import Counter, defaultdict
from collections.abc import Iterable

from deviceshare.model import HostPort

ANY_ADDRESS = "0.0.0.0"  # noqa: S104
"""All addresses of a node."""


class HostPorts:
    """The ports in use, by the row of the node."""

    def __init__(self) -> None:
        self._used: defaultdict[int, dict[tuple[str, int], Counter[str]]] = defaultdict(dict)
        """For each row, protocol and port the number of pods by address."""

    def charge(self, row: int, ports: Iterable[HostPort], sign: int) -> None:
        """Add (``sign`` 1) or release (-1) ports of a node."""
        for ip, protocol, port in ((each.ip, each.protocol, each.port) for each in ports):
            used = self._used[row].setdefault((protocol, port), Counter())
            used[ip] += sign
            if not used[ip]:
                del used[ip]
            if not used:
                del self._used[row][protocol, port]
            if not self._used[row]:
                del self._used[row]

    def clear(self, row: int) -> None:
        """Remove a node."""
        self._used.pop(row, None)

    def free(self, row: int, ports: Iterable[HostPort]) -> bool:
        """Return whether none of the ports is in use. A port on all addresses conflicts with any address."""
        used = self._used.get(row)
        return used is None or not any(
            addresses and (each.ip == ANY_ADDRESS or ANY_ADDRESS in addresses or each.ip in addresses)
            for each in ports
            if (addresses := used.get((each.protocol, each.port)))
        )
