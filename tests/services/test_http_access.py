"""Who may read the HTTP ports: the shared secret, Kubernetes users, the login of browsers, and names of the server."""

import argparse
import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession, CookieJar
from deviceshare.model import ConfigError
from deviceshare_bus.web import Access, HttpSettings, Reviews, SecretFile, Sessions, http_settings
from deviceshare_bus.web.settings import READ_SECONDS
from deviceshare_metrics import login
from deviceshare_metrics.server import Server, serve
from support.metrics import catch_up, started
from support.reviewer import ALICE, FakeReviewer

SECRET = "correct-horse-battery"
OTHER = "another-secret-of-16"


def options(**given: str) -> argparse.Namespace:
    return argparse.Namespace(**{"http_access": "", "http_secret_file": "", "http_hosts": "", **given})


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.write_text(f"{SECRET}\n")
    return path


@asynccontextmanager
async def served(access: Access) -> AsyncIterator[ClientSession]:
    core = started()
    catch_up(core)
    running = await serve(Server(core, lambda: True, access=access).app(), "127.0.0.1", 0)
    jar = CookieJar(unsafe=True)
    try:
        async with ClientSession(f"http://127.0.0.1:{running.addresses[0][1]}", cookie_jar=jar) as session:
            yield session
    finally:
        await running.cleanup()


async def get(session: ClientSession, path: str, token: str = "", **headers: str) -> tuple[int, str]:
    if token:
        headers["Authorization"] = f"Bearer {token}"
    async with session.get(path, headers=headers, allow_redirects=False) as answer:
        return answer.status, await answer.text() if answer.content_type != "text/event-stream" else ""


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "10.0.0.7", "", "example.org"])
def test_an_address_of_others_requires_a_setting(address: str, secret: Path) -> None:
    with pytest.raises(ConfigError, match=r"--health-address.*--http-access kubernetes, secret .*or open"):
        http_settings(options(), address, "--health-address")
    assert http_settings(options(http_access="open"), address, "").mode == "open"
    assert http_settings(options(http_secret_file=str(secret)), address, "").mode == "secret"
    assert http_settings(options(http_access="kubernetes"), address, "").mode == "kubernetes"


@pytest.mark.parametrize("address", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_a_loopback_address_requires_none(address: str) -> None:
    assert http_settings(options(), address, "").mode == "loopback"


@pytest.mark.parametrize("content", ["", "\n\n", "short\n", f"{SECRET}\nshort\n", "x" * 70_000, "x" * 8_001, "ö" * 20])
def test_a_file_without_a_valid_secret_is_an_error_that_does_not_show_it(tmp_path: Path, content: str) -> None:
    (tmp_path / "secret").write_text(content)
    with pytest.raises(ConfigError, match="16 to 8000 printable ASCII characters") as error:
        SecretFile(str(tmp_path / "secret"))
    assert "short" not in str(error.value)
    assert SECRET not in str(error.value)
    with pytest.raises(ConfigError, match="a file that can be read"):
        SecretFile(str(tmp_path / "absent"))
    with pytest.raises(ConfigError, match="--http-secret-file"):
        http_settings(options(http_access="secret"), "127.0.0.1", "")


def test_a_secret_is_rotated_by_its_file(secret: Path) -> None:
    now = [0.0]
    file = SecretFile(str(secret), lambda: now[0])
    secret.write_text(f"{SECRET}\n{OTHER}\n")
    assert file.accepts(SECRET)
    assert not file.accepts(OTHER), "read again later"
    now[0] += READ_SECONDS
    assert file.accepts(SECRET)
    assert file.accepts(OTHER)
    secret.write_text(f"{OTHER}\n")
    now[0] += READ_SECONDS
    assert not file.accepts(SECRET)
    assert file.accepts(OTHER)
    secret.unlink()
    now[0] += READ_SECONDS
    assert file.accepts(OTHER), "the last secrets stay in effect"
    assert not file.accepts("")
    assert not file.accepts(OTHER[:-1])
    assert not file.accepts("ö" * 20)


PATHS = ("/", "/metrics", "/api/v1/status", "/api/v1/pods", "/api/v1/cards", "/api/v1/changes", "/api/v1/events",
         "/api/v1/nodes/a", "/api/v1/pods/a/b/explain", "/api/v1/history", "/api/v1/history/1", "/absent")  # fmt: skip


async def test_a_secret_opens_everything_and_nothing_else_does(secret: Path) -> None:
    access = Access(HttpSettings("secret", SecretFile(str(secret))), sessions=Sessions())
    async with served(access) as session:
        for path in ("/healthz", "/readyz", "/login", "/ui/style.css"):
            assert (await get(session, path))[0] == 200
        for path in PATHS:
            assert (await get(session, path))[0] == (303 if path == "/" else 401)
            assert (await get(session, path, OTHER))[0] == (303 if path == "/" else 401)
            assert (await get(session, path, SECRET))[0] not in (303, 401, 403, 500)
        for value in ("Basic " + SECRET, SECRET, "Bearer", "Bearer ", f"Bearer {SECRET} x", "bearer\t" + SECRET):
            assert (await get(session, "/metrics", Authorization=value))[0] == 401
        assert (await get(session, "/metrics", Authorization=f"bearer {SECRET}"))[0] == 200
        assert (await get(session, f"/metrics?token={SECRET}"))[0] == 401, "in the address of the page only"
        _status, text = await get(session, "/api/v1/pods")
        assert json.loads(text) == {"error": "a token is required: Authorization: Bearer TOKEN"}


async def test_a_browser_logs_in_by_the_form(secret: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login, "PAUSE", 0.01)
    access = Access(HttpSettings("secret", SecretFile(str(secret))), sessions=Sessions())
    async with served(access) as session:
        async with session.post("/login", data={"token": OTHER}, allow_redirects=False) as answer:
            assert (answer.status, answer.headers["Location"]) == (303, "/login#refused")
        assert (await get(session, "/api/v1/pods"))[0] == 401
        for origin in ("http://evil.example", "null"):
            sent: dict[str, Any] = {"data": {"token": SECRET}, "headers": {"Origin": origin}}
            async with session.post("/login", **sent, allow_redirects=False) as answer:
                assert answer.status == 403
        async with session.post("/login", data={"token": SECRET}, allow_redirects=False) as answer:
            assert (answer.status, answer.headers["Location"]) == (303, "/")
            cookie = answer.headers["Set-Cookie"]
            assert "HttpOnly" in cookie
            assert "SameSite=Strict" in cookie
            assert SECRET not in cookie
        assert (await get(session, "/"))[0] == 200 == (await get(session, "/api/v1/pods"))[0]
        async with session.post("/logout", allow_redirects=False) as answer:
            assert answer.headers["Location"] == "/login"
        assert (await get(session, "/api/v1/pods"))[0] == 401
        session.cookie_jar.update_cookies({cookie.partition("=")[0]: cookie.partition("=")[2].partition(";")[0]})
        assert (await get(session, "/api/v1/pods"))[0] == 401, "the login has ended, not only its cookie"


RAW = (
    b"GET /api/v1/pods HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer \xff\xfe" + b"x" * 20 + b"\r\n",
    b"GET /?token=%FF%ED%A0%80" + b"x" * 20 + b" HTTP/1.1\r\nHost: a\r\n",
    b"GET /api/v1/pods HTTP/1.1\r\nHost: a:b:c\r\n",
    b"GET /api/v1/pods HTTP/1.1\r\nHost: [::1\r\n",
    b"GET /api/v1/pods HTTP/1.1\r\nHost: \xff\r\nCookie: \xff=\xff\r\n",
    b"POST /login HTTP/1.1\r\nHost: a\r\nOrigin: http://[\r\n",
    b"POST /login HTTP/1.1\r\nHost: a\r\nContent-Type: application/x-www-form-urlencoded\r\n"
    b"Content-Encoding: gzip\r\nBODY",
    b"POST /login HTTP/1.1\r\nHost: a\r\nContent-Type: application/x-www-form-urlencoded; charset=idna\r\nBODY",
    b"POST /login HTTP/1.1\r\nHost: a\r\nContent-Type: application/x-www-form-urlencoded; charset=hex\r\nBODY",
    b"POST /login HTTP/1.1\r\nHost: a\r\nContent-Type: application/x-www-form-urlencoded\r\nBODY",
    b"POST /login HTTP/1.1\r\nHost: a\r\nContent-Type: application/x-www-form-urlencoded; charset=none\r\nBODY",
)


@pytest.mark.parametrize("sent", RAW, ids=range(len(RAW)))
@pytest.mark.parametrize("mode", ["secret", "kubernetes"])
async def test_no_bytes_of_a_stranger_are_an_error_of_the_server(
    secret: Path, mode: Any, sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(login, "PAUSE", 0.01)
    access = Access(HttpSettings(mode, SecretFile(str(secret))), Reviews(FakeReviewer()), Sessions())
    async with served(access) as session:
        url = session._base_url
        reader, writer = await asyncio.open_connection(url.host, url.port)
        head, mark, _ = sent.partition(b"BODY")
        body = b"token=\xff" if mark else b""
        writer.write(head + b"Connection: close\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
        async with asyncio.timeout(60):
            line = await reader.readline()
        writer.close()
        assert line.split()[1] in (b"303", b"400", b"401", b"403", b"415"), line


async def test_the_printed_address_logs_in_once_and_hides_the_secret(secret: Path) -> None:
    access = Access(HttpSettings("secret", SecretFile(str(secret))), sessions=Sessions())
    async with served(access) as session:
        async with session.get(f"/?token={SECRET}", allow_redirects=False) as answer:
            assert (answer.status, answer.headers["Location"]) == (303, "/")
            assert answer.headers["Referrer-Policy"] == "no-referrer"
        status, text = await get(session, "/")
        assert status == 200
        assert 'action="/logout">' in text


@pytest.mark.parametrize(
    ("headers", "secure"),
    [
        ({"Origin": "http://127.0.0.1:{port}"}, False),
        ({"Origin": "https://127.0.0.1:{port}"}, True),
        ({"X-Forwarded-Proto": "https"}, True),
        ({"X-Forwarded-Proto": "http"}, False),
        ({"X-Forwarded-Proto": "https, http"}, True),
        ({"X-Forwarded-Proto": "http,https"}, False),
        ({}, False),
    ],
)
async def test_a_login_by_https_has_a_cookie_for_https_alone(
    secret: Path, headers: dict[str, str], secure: bool
) -> None:
    access = Access(HttpSettings("secret", SecretFile(str(secret))), sessions=Sessions())
    async with served(access) as session:
        url = session._base_url
        assert url is not None
        sent = {name: value.format(port=url.port) for name, value in headers.items()}
        async with session.post("/login", data={"token": SECRET}, headers=sent, allow_redirects=False) as answer:
            assert answer.status == 303
            assert ("Secure" in answer.headers["Set-Cookie"]) is secure


def test_logins_end_and_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    from aiohttp import web
    from aiohttp.test_utils import make_mocked_request
    from deviceshare_bus.web import sessions as module

    now = [0.0]
    logins = Sessions(lambda: now[0])

    def begun() -> web.Request:
        response = web.Response()
        logins.begin(make_mocked_request("GET", "/", headers={"Host": "a:80"}), response, SECRET)
        (cookie,) = response.cookies.values()
        return make_mocked_request("GET", "/", headers={"Host": "a:80", "Cookie": f"{cookie.key}={cookie.value}"})

    first = begun()
    assert logins.token(first) == SECRET
    now[0] += module.SECONDS
    assert logins.token(first) is None
    assert not logins._tokens, "the token does not stay in memory"
    monkeypatch.setattr(module, "MAX_SESSIONS", 2)
    requests = [begun() for _ in range(3)]
    assert [logins.token(each) for each in requests] == [None, SECRET, SECRET]


async def test_kubernetes_users(secret: Path) -> None:
    reviewer = FakeReviewer()
    settings = HttpSettings("kubernetes", SecretFile(str(secret)))
    async with served(Access(settings, Reviews(reviewer), Sessions())) as session:
        assert (await get(session, "/api/v1/pods", "of-stranger"))[0] == 401
        status, text = await get(session, "/api/v1/pods", "of-alice")
        assert status == 403
        assert "alice may not list pods in any namespace" in text
        assert (await get(session, "/metrics", "of-alice"))[0] == 403
        assert (await get(session, "/metrics", SECRET))[0] == 200 == (await get(session, "/api/v1/pods", SECRET))[0]
        asked = len(reviewer.asked)
        assert (await get(session, "/api/v1/pods", "of-alice"))[0] == 403
        assert len(reviewer.asked) == asked, "the results are cached"
        reviewer.fails = True
        assert (await get(session, "/api/v1/pods", "of-bob"))[0] == 503, "closed, not open"
        assert (await get(session, "/api/v1/pods", "x" * 7_000))[0] == 503
        assert (await get(session, "/healthz"))[0] == 200


@pytest.mark.parametrize("path", ["/metrics", "/api/v1/pods"])
async def test_what_the_api_server_does_not_answer_about_a_known_user_is_refused_for_now(
    path: str, caplog: pytest.LogCaptureFixture
) -> None:
    reviewer = FakeReviewer()
    reviews = Reviews(reviewer)
    assert await reviews.user("of-alice") == ALICE
    reviewer.fails = reviewer.metrics = True
    async with served(Access(HttpSettings("kubernetes"), reviews)) as session:
        async with session.get(path, headers={"Authorization": "Bearer of-alice"}) as answer:
            assert (answer.status, answer.headers["Retry-After"]) == (503, "5")
            assert await answer.json() == {
                "error": "the API server cannot be asked about the token: see the log of the service"
            }
        assert "cannot be reviewed: no answer" in caplog.text
        reviewer.fails = False
        assert (await get(session, "/metrics", "of-alice"))[0] == 200


@pytest.mark.parametrize("mode", ["loopback", "open"])
async def test_without_a_token_the_server_must_be_named_by_its_own_name(mode: Any) -> None:
    async with served(Access(HttpSettings(mode, hosts=frozenset({"metrics.example"})))) as session:
        for host in ("127.0.0.1", "localhost:8080", "[::1]:80", "10.1.2.3:9", "metrics.example", "METRICS.example:80"):
            assert (await get(session, "/api/v1/pods", Host=host))[0] == 200
        for host in ("evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "[::1", "a:b:c", "0x7f.1"):
            for path in PATHS:
                assert (await get(session, path, Host=host))[0] == 421, (host, path)
        assert (await get(session, "/healthz", Host="evil.example"))[0] == 200
        assert 'action="/logout" hidden' in (await get(session, "/"))[1]
