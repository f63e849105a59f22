"""Logins of browsers: a random cookie stands for the token that the form was given."""

import secrets
import time
from collections import OrderedDict
from collections.abc import Callable

from aiohttp import web

SECONDS = 12 * 3600.0
"""Seconds after which a login ends."""
MAX_SESSIONS = 1_000
"""Logins that are kept; the oldest are ended."""


class Sessions:
    """The logins of this process. The token of each is reviewed for every request, so a revoked one ends its login."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._tokens: OrderedDict[str, tuple[float, str]] = OrderedDict()
        """Until when and the token by the value of the cookie, the oldest first."""

    def token(self, request: web.Request) -> str | None:
        """Return the token of a request's login, None if it has none."""
        self._drop_ended()
        found = self._tokens.get(request.cookies.get(_name(request), ""))
        return None if found is None else found[1]

    def begin(self, request: web.Request, response: web.StreamResponse, token: str) -> None:
        """Begin a login: the response sets the cookie."""
        self._drop_ended()
        value = secrets.token_urlsafe(32)
        self._tokens[value] = (self._clock() + SECONDS, token)
        if len(self._tokens) > MAX_SESSIONS:
            self._tokens.popitem(last=False)
        response.set_cookie(
            _name(request), value, max_age=int(SECONDS), path="/", httponly=True, samesite="Strict",
            secure=_over_tls(request) or None,
        )  # fmt: skip

    def end(self, request: web.Request, response: web.StreamResponse) -> None:
        """End the login of a request."""
        self._tokens.pop(request.cookies.get(_name(request), ""), None)
        response.del_cookie(_name(request), path="/", httponly=True, samesite="Strict")

    def _drop_ended(self) -> None:
        """Forget the tokens of logins whose time is over."""
        while self._tokens and next(iter(self._tokens.values()))[0] <= self._clock():
            self._tokens.popitem(last=False)


def _over_tls(request: web.Request) -> bool:
    """Return whether a browser reads the page by https, also where a proxy ends TLS.

    The browser says so in the header of its form, a proxy in its own, to which
    others append. Who makes one up loses a login of their own.
    """
    headers = request.headers
    return (
        request.secure
        or headers.get("Origin", "").startswith("https://")
        or headers.get("X-Forwarded-Proto", "").partition(",")[0].strip().lower() == "https"
    )


def _name(request: web.Request) -> str:
    """Return the name of the cookie: browsers send a cookie of 127.0.0.1 to all of its ports."""
    try:
        port = request.url.port
    except ValueError:  # the header Host is not valid
        port = None
    return f"deviceshare-{port or 0}"
