"""What is decided about each single request, without a server: who sends it, and which server it names."""

from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request
from deviceshare_bus.web import Access, HttpSettings, ReviewError, Reviews, SecretFile, Sessions, User
from deviceshare_bus.web.access import Refused, error_answer
from multidict import CIMultiDict

SECRET = "correct-horse-battery"
ALICE = User("alice")


class Reviewer:
    """Knows alice, who may do what ``allows`` holds; asked about something in ``fails`` it has no answer."""

    def __init__(self, *allows: str, fails: str = "") -> None:
        self.asked: list[str] = []
        self._allows, self._fails = allows, fails

    def _answer(self, about: str) -> bool:
        self.asked.append(about)
        if about == self._fails:
            raise ReviewError("no answer")
        return about in self._allows

    async def user(self, token: str) -> User | None:
        return ALICE if self._answer(token) or token == "of-alice" else None

    async def may_list_pods(self, user: User, namespace: str) -> bool:
        return self._answer(f"pods {namespace}")

    async def may_get(self, user: User, path: str) -> bool:
        return self._answer(path)


def request(path: str = "/api/v1/pods", *headers: tuple[str, str]) -> web.Request:
    return make_mocked_request("GET", path, headers=CIMultiDict([("Host", "localhost"), *headers]))


def bearer(token: str) -> tuple[str, str]:
    return "Authorization", f"Bearer {token}"


def of_users(reviewer: Reviewer) -> Access:
    return Access(HttpSettings("kubernetes"), Reviews(reviewer), Sessions())


@pytest.fixture
def secret(tmp_path: Path) -> SecretFile:
    path = tmp_path / "secret"
    path.write_text(SECRET)
    return SecretFile(str(path))


@pytest.mark.parametrize(
    "host",
    ["localhost", "LOCALHOST", " localhost ", "localhost.", "localhost:1", "10.1.2.3", "10.1.2.3:80", "[::1]",
     "[::1]:80", "own.example", "own.example.:80"],
)  # fmt: skip
@pytest.mark.parametrize("mode", ["open", "loopback"])
async def test_a_server_without_tokens_answers_to_its_own_names(mode: str, host: str) -> None:
    access = Access(HttpSettings(mode, hosts=frozenset({"own.example"})))  # type: ignore[arg-type]
    assert await access.check(make_mocked_request("GET", "/metrics", headers={"Host": host})) is None


@pytest.mark.parametrize(
    ("host", "shown"),
    [("", "''"), ("evil.example", "'evil.example'"), ("www.example", "'www.example'"),
     ("localhost:x", "''"), ("[::1]80", "''"), ("[::1", "''"),
     ("::1", "''"), ("a" * 101, f"'{'a' * 100}'"), ("[evil.example]", "'evil.example'")],
)  # fmt: skip
async def test_a_server_without_tokens_does_not_answer_to_other_names(host: str, shown: str) -> None:
    with pytest.raises(Refused) as refused:
        await Access().check(make_mocked_request("GET", "/metrics", headers={"Host": host}))
    assert refused.value.status == 421
    assert str(refused.value) == (
        f"the header Host names {shown}: add the name to --http-hosts (DEVICESHARE_HTTP_HOSTS)"
    )


async def test_with_tokens_any_name_will_do(secret: SecretFile) -> None:
    access = Access(HttpSettings("secret", secret))
    asked = make_mocked_request(
        "GET", "/metrics", headers={"Host": "evil.example", "Authorization": f"Bearer {SECRET}"}
    )
    assert await access.check(asked) is None
    assert (access.anonymous, access.secrets, access.reviews) == (False, secret, None)


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        ((), "a token is required: Authorization: Bearer TOKEN"),
        ((bearer(SECRET), bearer(SECRET)), "expected one header Authorization: Bearer TOKEN"),
        ((("Authorization", f"Basic {SECRET}"),), "expected one header Authorization: Bearer TOKEN"),
        ((bearer("  "),), "expected one header Authorization: Bearer TOKEN"),
        ((bearer("of-alice"),), "the token is not valid"),
    ],
)
async def test_a_secret_is_required_and_users_do_not_count(
    secret: SecretFile, headers: tuple[tuple[str, str], ...], reason: str
) -> None:
    reviewer = Reviewer()
    access = Access(HttpSettings("secret", secret), Reviews(reviewer), Sessions())
    with pytest.raises(Refused) as refused:
        await access.check(request("/", *headers))
    assert (refused.value.status, str(refused.value), reviewer.asked) == (401, reason, [])
    assert await access.check(request("/", ("Authorization", f"bEARER   {SECRET} "))) is None


async def test_a_user_is_asked_about_once_and_not_what_cannot_be_a_token() -> None:
    reviewer = Reviewer()
    access = of_users(reviewer)
    assert access.reviews is not None
    assert [await access.check(request("/", bearer("of-alice"))) for _ in range(2)] == [ALICE, ALICE]
    for token, asked in (("of-none", ["of-alice", "of-none"]), ("ö", ["of-alice", "of-none"])):
        with pytest.raises(Refused, match="the token is not valid") as refused:
            await access.check(request("/", bearer(token)))
        assert (refused.value.status, reviewer.asked) == (401, asked)


async def test_a_login_of_a_browser_is_as_good_as_a_token(secret: SecretFile) -> None:
    sessions, response = Sessions(), web.Response()
    access = Access(HttpSettings("secret", secret), sessions=sessions)
    sessions.begin(request(), response, SECRET)
    (cookie,) = response.cookies.values()
    assert await access.check(request("/", ("Cookie", f"{cookie.key}={cookie.value}"))) is None
    with pytest.raises(Refused):
        await access.check(request("/", ("Cookie", f"{cookie.key}=x")))


@pytest.mark.parametrize(
    ("reviewer", "status", "reason"),
    [
        (Reviewer("/metrics"), 0, ""),
        (Reviewer(), 403, "alice may not get the non-resource URL /metrics"),
        (Reviewer(fails="/metrics"), 503, "the API server cannot be asked about the token: see the log of the service"),
        (Reviewer(fails="of-alice"), 503, "the API server cannot be asked about the token: see the log of the service"),
    ],
)
async def test_metrics_are_read_by_who_may_get_their_url(reviewer: Reviewer, status: int, reason: str) -> None:
    access = of_users(reviewer)
    if not status:
        assert await access.check(request("/metrics", bearer("of-alice"))) == ALICE
        assert reviewer.asked == ["of-alice", "/metrics"]
        return
    with pytest.raises(Refused) as refused:
        await access.check(request("/metrics", bearer("of-alice")))
    assert (refused.value.status, str(refused.value)) == (status, reason)


async def test_other_paths_need_no_right_to_metrics(secret: SecretFile) -> None:
    reviewer = Reviewer()
    access = Access(HttpSettings("kubernetes", secret), Reviews(reviewer))
    assert await access.check(request("/metrics", bearer(SECRET))) is None
    assert await access.check(request("/metrics/", bearer("of-alice"))) == ALICE
    assert reviewer.asked == ["of-alice"]


async def test_pods_are_shown_by_namespace(secret: SecretFile) -> None:
    assert await of_users(Reviewer()).namespaces(None, ["a"]) is None
    assert await Access(HttpSettings("secret", secret)).namespaces(ALICE, ["a"]) is None
    assert await of_users(Reviewer("pods ")).namespaces(ALICE, ["a"]) is None
    assert await of_users(Reviewer("pods a")).namespaces(ALICE, ["a", "b"]) == {"a"}
    with pytest.raises(Refused, match="alice may not list pods in any namespace that has pods") as refused:
        await of_users(Reviewer("pods c")).namespaces(ALICE, ["a", "b"])
    assert refused.value.status == 403
    for about in ("pods ", "pods a"):
        with pytest.raises(Refused, match="the API server cannot be asked") as refused:
            await of_users(Reviewer(fails=about)).namespaces(ALICE, ["a", "b"])
        assert refused.value.status == 503


@pytest.mark.parametrize(
    ("status", "header"),
    [(401, {"WWW-Authenticate": "Bearer"}), (503, {"Retry-After": "5"}), (403, {}), (421, {})],
)
def test_a_refusal_says_what_to_do(status: int, header: dict[str, str]) -> None:
    answer = error_answer(status, "why")
    assert (answer.status, answer.body, answer.content_type) == (status, b'{"error":"why"}', "application/json")
    assert {
        key: answer.headers[key] for key in answer.headers if key not in ("Content-Type", "Content-Length")
    } == header
