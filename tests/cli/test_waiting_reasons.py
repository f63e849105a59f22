"""The reasons of waiting pods in `deviceshare up` are those of the metrics service."""

import pytest
from deviceshare_cli.endpoint import Endpoint
from deviceshare_cli.errors import CommandError
from deviceshare_cli.pods import PodView
from deviceshare_cli.waiting_reasons import WaitingReason, waiting_reasons, with_reason
from deviceshare_metrics import api
from msgspec.structs import replace

METRICS = Endpoint("http://127.0.0.1:1")
WAITS = PodView("default", "a", "uid-a", "volcano", "", False, {}, "0/3 nodes")


def pod(name: str, state: api.PodState, reason: str | None = None, at: float = 0.0, *problems: str) -> api.Pod:
    node = "n1" if state == "Claimed" else None
    return api.Pod(
        namespace="default", name=name, uid=f"uid-{name}", scheduler="volcano", node=node, state=state,
        devices=(), reason=reason, reason_at=at, queue="", group="", problems=problems,
    )  # fmt: skip


async def test_reasons_are_by_uid_with_their_times(monkeypatch: pytest.MonkeyPatch) -> None:
    pods = (
        pod("a", "Pending", "1900m used"),
        pod("b", "Pending", "0/3 nodes", 5.0),
        pod("invalid", "Pending", None, 0.0, "one", "two"),
        pod("new", "Pending"),
        pod("claimed", "Claimed"),
    )
    asked = []

    async def answer(metrics: Endpoint, path: str, kind: object, parameters: object) -> api.Items[api.Pod]:
        asked.append((metrics, path, kind, parameters))
        return api.Items(items=pods)

    monkeypatch.setattr("deviceshare_cli.waiting_reasons.fetch", answer)
    assert await waiting_reasons(METRICS) == {
        "uid-a": WaitingReason("1900m used", 0.0),
        "uid-b": WaitingReason("0/3 nodes", 5.0),
        "uid-invalid": WaitingReason("one; two", 0.0),
        "uid-claimed": WaitingReason("is being bound to node n1", 0.0),
    }
    unbound = [("state", "Pending"), ("state", "Gated"), ("state", "Claimed")]
    assert asked == [(METRICS, "pods", api.Items[api.Pod], unbound)]


async def test_without_an_answer_the_condition_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    async def failing(*_: object) -> None:
        raise CommandError("no answer")

    monkeypatch.setattr("deviceshare_cli.waiting_reasons.fetch", failing)
    assert with_reason(WAITS, await waiting_reasons(METRICS)) == WAITS


def test_a_reason_replaces_that_of_the_condition() -> None:
    reasons = {"uid-a": WaitingReason("1900m used", 7.0), "uid-b": WaitingReason("another", 8.0)}
    assert with_reason(WAITS, reasons) == replace(WAITS, reason="1900m used", reason_at=7.0)
