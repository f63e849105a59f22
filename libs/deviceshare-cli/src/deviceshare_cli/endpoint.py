"""The address of a metrics service, and the token that opens it."""

from typing import NamedTuple


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
