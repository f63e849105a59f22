"""The address of a metrics service, and the token that opens it."""

from typing import NamedTuple
from urllib.parse import urlsplit

from deviceshare_cli.errors import CommandError


class Endpoint(NamedTuple):
    """A metrics service: its HTTP URL, and the token for it, '' for none."""

    url: str
    token: str = ""

    @property
    def headers(self) -> dict[str, str]:
        """The headers of a request."""
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}

    @property
    def page(self) -> str:
        """The address that opens the page in a browser, and logs in."""
        return f"{self.url}/?token={self.token}" if self.token else f"{self.url}/"


def check_url(option: str, url: str) -> None:
    """Raise CommandError if the value of an option is not the address of an HTTP server."""
    parts = urlsplit(url)
    try:
        is_valid = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        is_valid = is_valid and not parts.query and not parts.username
    except ValueError:
        is_valid = False
    if not is_valid:
        raise CommandError(f"{option} {url!r} is not valid: expected http://HOST:PORT or https://HOST")
