"""``--replicas`` of ``deviceshare up``, ``bench bus`` and ``chaos``."""

from deviceshare_cli.errors import CommandError

SERVICES = ("inventory", "placement", "binder", "metrics")


def parse_replicas(text: str) -> dict[str, int]:
    """Return the replicas of ``placement=3,binder=2``. Raises CommandError."""
    found = {}
    for part in filter(None, text.split(",")):
        service, _, count = part.partition("=")
        if service not in SERVICES or not count.isdecimal() or not 0 < int(count) <= 9:
            raise CommandError(
                f"--replicas {text!r} is not valid: expected SERVICE=COUNT[,…], with {', '.join(SERVICES)}"
            )
        found[service] = int(count)
    return found
