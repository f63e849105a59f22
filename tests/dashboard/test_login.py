"""The login of the dashboard in a real browser, and the page of a user who sees one namespace."""

from deviceshare.model import PodFact
from deviceshare_bus.messages import subjects
from deviceshare_bus.web import Access, HttpSettings, Reviews, Sessions, User
from deviceshare_metrics.core import MetricsCore
from support.browser import needs_chromium, shown
from support.metrics import catch_up, read
from support.metrics_messages import claim, ledger, node, pod

pytestmark = needs_chromium


class OneNamespace:
    """The token ``of-NAMESPACE`` belongs to a user who may list the pods of this namespace."""

    async def user(self, token: str) -> User | None:
        return User(token.removeprefix("of-")) if token.startswith("of-") else None

    async def may_list_pods(self, user: User, namespace: str) -> bool:
        return user.name == namespace

    async def may_get(self, user: User, path: str) -> bool:
        return False


def their_pod(name: str, on: str = "") -> tuple[str, PodFact]:
    return subjects.fact("pod", f"uid-{name}"), PodFact(uid=f"uid-{name}", namespace="theirs", name=name, node=on)


def core() -> MetricsCore:
    """Return a core with the pods ``default/vole``, claimed, and two of another namespace, waiting and bound."""
    found = read(node(), pod("vole"), their_pod("zebra"), their_pod("zebra-2", "n1"), ledger(claim("vole")))
    catch_up(found)
    return found


async def test_a_browser_logs_in_and_sees_the_pods_of_its_namespace() -> None:
    access = Access(HttpSettings("kubernetes"), Reviews(OneNamespace()), Sessions())
    async with shown(core(), access) as page:
        await page.page.goto(f"{page.url}/")
        assert page.page.url == f"{page.url}/login"
        assert not await page.page.is_visible("#refused")
        await page.page.fill("#token", "wrong")
        await page.page.click("button[type=submit]")
        await page.page.wait_for_selector("#refused", state="visible")
        await page.page.fill("#token", "of-default")
        await page.page.click("button[type=submit]")
        await page.until("document.querySelector('#live.on')")
        await page.open("pods")
        await page.has("vole")
        assert "zebra" not in await page.page.content()
        await page.open("waiting")
        assert "zebra" not in await page.page.content()
        await page.open("nodes/n1")
        await page.has("vole")
        assert "zebra" not in await page.page.content()
        assert await page.page.evaluate("document.cookie") == "", "no script reads the cookie"
        await page.page.click("text=Log out")
        await page.page.wait_for_url("**/login")
        await page.page.goto(f"{page.url}/#/pods")
        assert page.page.url.partition("#")[0] == f"{page.url}/login"
        assert not page.errors
