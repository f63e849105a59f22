"""The login of browsers: a form that takes a token, and the cookie that stands for it.

A shared secret may also be given once in the address, ``/?token=SECRET``, as ``deviceshare up`` prints it: the answer
sets the cookie and leads to the address without it.
"""

import asyncio
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from aiohttp import web
from deviceshare_bus.web import Access, Refused, body_of

PAUSE = 0.5
"""Seconds until a wrong token is answered."""


class Login:
    """The routes of the login.

    Args:
        access: decides about tokens and keeps the logins.
        file: returns a file of the page.
    """

    def __init__(self, access: Access, file: Callable[[str], web.Response]) -> None:
        self.access = access
        self._file = file
        self.public = (self._get_form, self._post_form, self._post_logout)
        """The handlers that need no token."""
        self.redirect = self._make_redirect()
        """The middleware that leads a browser without a login to the form."""

    def routes(self) -> list[web.RouteDef]:
        """Return the routes."""
        return [
            web.get("/login", self._get_form),
            web.post("/login", self._post_form),
            web.post("/logout", self._post_logout),
        ]

    async def _get_form(self, _: web.Request) -> web.Response:
        return self._file("login.html")

    async def _post_form(self, request: web.Request) -> web.Response:
        _check_origin(request)
        token = (await body_of(request)).get("token", "").strip()
        try:
            await self.access.accept(token)
        except Refused as refused:
            await asyncio.sleep(PAUSE)
            return _to("/login#unavailable" if refused.status == 503 else "/login#refused")
        return self._begun(request, token)

    async def _post_logout(self, request: web.Request) -> web.Response:
        _check_origin(request)
        response = _to("/login")
        if self.access.sessions is not None:
            self.access.sessions.end(request, response)
        return response

    def _begun(self, request: web.Request, token: str) -> web.Response:
        response = _to("/")
        if self.access.sessions is not None:
            self.access.sessions.begin(request, response, token)
        return response

    def _make_redirect(self) -> Any:
        @web.middleware
        async def redirect(request: web.Request, handler: Any) -> web.StreamResponse:
            if request.path != "/" or request.method != "GET" or self.access.anonymous:
                response: web.StreamResponse = await handler(request)
                return response
            if (token := request.query.get("token")) is not None:
                secrets = self.access.secrets
                if secrets is not None and secrets.accepts(token):
                    return self._begun(request, token)
                await asyncio.sleep(PAUSE)
                return _to("/login#refused")
            response = await handler(request)
            return _to("/login") if response.status == 401 else response

        return redirect


def _to(place: str) -> web.Response:
    return web.Response(status=303, headers={"Location": place})


def _check_origin(request: web.Request) -> None:
    """Refuse forms of other sites: they could log a user in under another name. Raises HTTPForbidden."""
    origin = request.headers.get("Origin")
    site = request.headers.get("Sec-Fetch-Site", "same-origin")
    if site not in ("same-origin", "none") or (origin is not None and _host_of(origin) != request.host):
        raise web.HTTPForbidden(text="the form is not from this server")


def _host_of(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc or None
    except ValueError:
        return None
