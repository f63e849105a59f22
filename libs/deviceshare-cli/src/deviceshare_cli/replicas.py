"""``--replicas`` of ``deviceshare up``, ``lab bench bus`` and ``chaos``."""

import typer

MOST = 9
"""The most processes of one service."""
SERVICES = ("inventory", "placement", "binder", "metrics")
UNDIVIDED = "metrics"
"""The service that serves the page: one process."""
DIVISIBLE = tuple(service for service in SERVICES if service != UNDIVIDED)
"""The services whose processes divide the work."""


def parse_replicas(text: str) -> dict[str, int]:
    """Return the replicas of ``placement=3,binder=2``: :data:`DIVISIBLE` services, each once. Raises BadParameter."""
    found: dict[str, int] = {}
    for part in filter(None, text.split(",")):
        service, _, count = part.partition("=")
        if service in found:
            raise typer.BadParameter(f"--replicas {text!r} is not valid: {service} is given twice")
        if service == UNDIVIDED and count != "1":
            raise typer.BadParameter(f"--replicas {text!r} is not valid: {service} has one process, serving the page")
        if service not in SERVICES or not (count.isascii() and count.isdecimal() and 0 < int(count[:9]) <= MOST):
            raise typer.BadParameter(
                f"--replicas {text!r} is not valid: expected SERVICE=COUNT[,…], "
                f"with {', '.join(DIVISIBLE)} as services and counts from 1 to {MOST}"
            )
        found[service] = int(count)
    return found
