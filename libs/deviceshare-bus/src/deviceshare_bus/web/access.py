"""Decides about each request: who sends it, and whether the server was meant (the header ``Host``)."""

import logging
from collections.abc import Awaitable, Callable, Collection
from ipaddress import ip_address
from typing import Any

import msgspec
from aiohttp import web

from deviceshare_bus.web.reviews import ReviewError, Reviews, User
from deviceshare_bus.web.sessions import Sessions
from deviceshare_bus.web.settings import LOOPBACK, HttpSettings, SecretFile, is_token

log = logging.getLogger("deviceshare.http")

METRICS = "/metrics"
"""The path whose reading Kubernetes permits by a non-resource URL."""
USER: "web.RequestKey[User | None]" = web.RequestKey("user", object)  # type: ignore[arg-type]
"""Who sends a request; None: it may read everything."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Refused(Exception):
    """A request is refused: the status and the reason, which is for users."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class Access:
    """Decides about the requests to a port.

    Args:
        settings: who may read it.
        reviews: asks the API server; required by the mode ``kubernetes``.
        sessions: the logins of browsers, if the port has a form.
    """

    def __init__(
        self, settings: HttpSettings = LOOPBACK, reviews: Reviews | None = None, sessions: Sessions | None = None
    ) -> None:
        self._settings = settings
        self._reviews = reviews if settings.mode == "kubernetes" else None
        self.sessions = sessions
        """The logins of browsers, None if the port has no form."""

    @property
    def anonymous(self) -> bool:
        """Whether requests need no token."""
        return self._settings.mode in ("open", "loopback")

    @property
    def reviews(self) -> Reviews | None:
        """Asks the API server what a user may read; None if every accepted token may read everything."""
        return self._reviews

    @property
    def secrets(self) -> SecretFile | None:
        """The shared secrets, if there are any."""
        return self._settings.secrets

    async def accept(self, token: str) -> User | None:
        """Return whose token it is; None if it is a shared secret, which may read everything. Raises Refused."""
        if self._settings.secrets is not None and self._settings.secrets.accepts(token):
            return None
        if self._reviews is None or not is_token(token):
            raise Refused(401, "the token is not valid")
        try:
            user = await self._reviews.user(token)
        except ReviewError as error:
            raise _unavailable(error) from error
        if user is None:
            raise Refused(401, "the token is not valid")
        return user

    async def check(self, request: web.Request) -> User | None:
        """Return who sends a request, None if it may read everything. Raises Refused."""
        self._check_host(request)
        if self.anonymous:
            return None
        token = _bearer(request)
        if token is None and self.sessions is not None:
            token = self.sessions.token(request)
        if token is None:
            raise Refused(401, "a token is required: Authorization: Bearer TOKEN")
        user = await self.accept(token)
        if user is not None and request.path == METRICS and self._reviews is not None:
            try:
                if not await self._reviews.may_get(user, METRICS):
                    raise Refused(403, f"{user.name} may not get the non-resource URL {METRICS}")
            except ReviewError as error:
                raise _unavailable(error) from error
        return user

    async def namespaces(self, user: User | None, namespaces: Collection[str]) -> frozenset[str] | None:
        """Return the namespaces whose pods a user may list, None for all. Raises Refused if there is none."""
        if user is None or self._reviews is None:
            return None
        try:
            found = await self._reviews.namespaces(user, namespaces)
        except ReviewError as error:
            raise _unavailable(error) from error
        if found is not None and not found:
            raise Refused(403, f"{user.name} may not list pods in any namespace that has pods")
        return found

    def middleware(self, public: Collection[Handler]) -> Any:
        """Return the middleware that refuses what :meth:`check` refuses, except requests to ``public`` handlers."""

        @web.middleware
        async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
            try:
                if request.match_info.handler not in public:
                    request[USER] = await self.check(request)
                return await handler(request)
            except Refused as refused:
                return error_answer(refused.status, str(refused))

        return check

    def _check_host(self, request: web.Request) -> None:
        """Refuse names that anybody could have given this address, where a name is all that protects the answers."""
        if not self.anonymous:
            return
        host = _host_of(request.headers.get("Host", ""))
        if host == "localhost" or host in self._settings.hosts or _is_address(host):
            return
        reason = f"the header Host names {host[:100]!r}: add the name to --http-hosts (DEVICESHARE_HTTP_HOSTS)"
        raise Refused(421, reason)


def error_answer(status: int, reason: str) -> web.Response:
    """Return the answer of a refused request."""
    headers = {401: {"WWW-Authenticate": "Bearer"}, 503: {"Retry-After": "5"}}.get(status, {})
    return web.Response(
        status=status, body=msgspec.json.encode({"error": reason}), content_type="application/json", headers=headers
    )


def _unavailable(error: ReviewError) -> Refused:
    log.warning("a token or permission cannot be reviewed: %s", error)
    return Refused(503, "the API server cannot be asked about the token: see the log of the service")


def _bearer(request: web.Request) -> str | None:
    given = request.headers.getall("Authorization", [])
    if not given:
        return None
    kind, _, token = given[0].partition(" ")
    if len(given) > 1 or kind.lower() != "bearer" or not token.strip():
        raise Refused(401, "expected one header Authorization: Bearer TOKEN")
    return token.strip()


def _host_of(header: str) -> str:
    """Return the host of a header ``Host`` without its port, in lower case; '' if it is not valid."""
    text = header.strip().lower()
    if text.startswith("["):
        host, bracket, port = text[1:].partition("]")
        return host if bracket and (not port or port.startswith(":")) else ""
    host, _, port = text.partition(":")
    return host.rstrip(".") if not port or port.isdecimal() else ""


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
