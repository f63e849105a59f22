"""The pages that docs/answers.md names for the questions of operators, in a real Chromium, on a desktop and a phone."""

import json
import re
from pathlib import Path

import pytest
from deviceshare_bus.messages.subjects import explain as explained
from deviceshare_metrics.core.events import ExplanationReceived
from deviceshare_metrics.holders import CARDS_METRIC, RECORDED
from msgspec.structs import replace
from support.browser import needs_chromium, shown
from support.metrics import NOW, exposed, read
from support.metrics_messages import claim, grants, ledger, pod
from support.small_core import FEW, small_core

pytestmark = needs_chromium

REPOSITORY = Path(__file__).parents[2]
SECTIONS = re.split(r"^## ", (REPOSITORY / "docs" / "answers.md").read_text(), flags=re.MULTILINE)[1:]
DESKTOP = {"viewport": {"width": 1280, "height": 860}}
PHONE = {"viewport": {"width": 360, "height": 740}, "is_mobile": True, "has_touch": True}
ADDRESS = {"NAMESPACE": "default", "NODE": "n1", "MODEL": "p4"}
SHOWN = {
    "Why is it pending": ("w1", "0/2 nodes are unavailable: 1 with too little free memory."),
    "Who has all the": ("default/a", "0.3 × Tesla P4"),
    "Which pods wait only": ("only fragmentation",),
    "When will it start": ("Position 1 of 1 in its queue", "No estimate of when it starts: too few equal pods"),
    "What happens if": ("Cards (2)", "Pods (1)", "default/a"),
}
"""What the pages show of the cluster of the tests, by the question; the last question is answered by Grafana."""


def page_of(question: str) -> str:
    """Return the address of the page that a section names."""
    (section,) = (each for each in SECTIONS if each.startswith(question))
    (address,) = re.findall(r"^Page: `#/([^`]*)`", section, re.MULTILINE)
    for name, value in ADDRESS.items():
        address = address.replace(name, value)
    return address.replace("POD", "w1")


def test_each_question_has_a_page():
    assert [sum(each.startswith(question) for each in SECTIONS) for question in SHOWN] == [1] * 5
    assert all(re.search(r"^Page: ", each, re.MULTILINE) for each in SECTIONS)


@pytest.mark.parametrize("browser", [DESKTOP, PHONE], ids=["desktop", "phone"])
async def test_the_pages_answer_the_questions(browser):
    core = small_core()
    read(pod("other", node="legacy", held=()), into=core)
    why = core.store.histories["uid-w1"].explanation
    first = (replace(FEW, needed=1, free_by_model=(("Tesla-P4", 9500),)),)
    core.handle(ExplanationReceived(explained("uid-w1"), replace(why, first_failing=first)), NOW)
    async with shown(core, **browser) as page:
        for question, texts in SHOWN.items():
            await page.open(page_of(question))
            for text in texts:
                await page.has(text)
            width = await page.page.evaluate("document.documentElement.scrollWidth")
            assert width <= browser["viewport"]["width"], question
        await page.open(page_of("Who has all the"))
        assert "default/other" not in await page.text()


def test_the_panel_of_who_used_what_reads_a_metric_of_the_service():
    (section,) = (each for each in SECTIONS if each.startswith("Who used what"))
    (title,) = re.findall(r"^Page: the panel `([^`]*)`", section, re.MULTILINE)
    dashboard = json.loads((REPOSITORY / "deploy/helm/deviceshare/files/dashboard.json").read_text())
    (panel,) = (each for each in dashboard["panels"] if each["title"] == title)
    core = small_core()
    read(ledger(claim("a", grants=grants(memory=3000))), into=core)
    assert RECORDED[CARDS_METRIC] in panel["targets"][0]["expr"]
    assert f"\n{CARDS_METRIC}{{" in exposed(core)
