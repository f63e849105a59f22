"""`deviceshare top`: totals of card models."""

import json
from contextlib import AsyncExitStack, nullcontext
from types import SimpleNamespace
from typing import Any, cast

import pytest
from deviceshare_cli import json_api
from deviceshare_cli.endpoint import Endpoint
from deviceshare_cli.reading.live import LiveReader
from deviceshare_cli.reading.opening import Source
from deviceshare_cli.runfile import Run
from deviceshare_cli.whatif import top
from deviceshare_cli.whatif.holders import held
from deviceshare_cli.whatif.top import _models, totals
from deviceshare_metrics import api
from deviceshare_metrics.api_dashboard import Queue

NODE = api.Node(
    name="n1", ready=True, unschedulable=False, allocatable={}, used={}, pods=0, cards=0, problems=()
)  # fmt: skip


def device(index, mode="hami-core", **more):
    amounts = {
        "memory_total": 16000, "memory_used": 0, "cores_total": 100, "cores_used": 0, "slots_total": 10,
        "slots_used": 0, "largest_free": 16000,
    }  # fmt: skip
    fields = {"node": "n1", "id": f"GPU-{index}", "index": index, "type": "T4", "healthy": True, "pods": ()}
    return api.Device(**{**amounts, **fields, "mode": mode, **more})


def test_what_is_free_is_what_a_pod_could_get():
    full = device(0, memory_used=1000, cores_used=100, slots_used=1, largest_free=0)
    part = device(1, memory_used=4000, cores_used=10, slots_used=1, largest_free=12000)
    (found,) = totals([full, part, device(2)], [NODE])
    assert (found.whole_cards_free, found.free_memory, found.largest_free_memory) == (1, 28000, 16000)
    assert (found.largest_free_cores, found.fragmented) == (100, round(12000 / 28000, 4))
    (found,) = totals([full], [NODE])
    assert (found.largest_free_memory, found.largest_free_cores, found.fragmented) == (0, 0, 0.0)


def test_free_cards_are_counted_by_node():
    cards = [device(at, node=f"n{at // 8}", slots_used=int(at in (8, 9, 20))) for at in range(21)]
    (found,) = totals(cards, [])
    assert (found.whole_cards_free, found.most_free_on_a_node) == (18, 8)
    assert found.nodes_with_free == {8: 1, 4: 3, 2: 3, 1: 3}
    assert "1/3/3/3" in _models([found])[1]


def pod(name, *cards, **more):
    fields = {"namespace": "default", "uid": name, "scheduler": "", "node": "n1", "state": "Bound", "reason": None}
    shown = tuple(api.PodCard(id="c", type=model, part=part, memory=mib) for model, part, mib in cards)
    return api.Pod(name=name, devices=(), cards=shown, queue="q", group="", problems=(), **{**fields, **more})


def test_holders_have_what_their_pods_have_for_as_long_as_they_have_it():
    pods = [
        pod("a", ("T4", 0.25, 4000), ("A100", 0.5, 5000), created=1000.0),
        pod("b", ("T4", 0.25, 4000), ("310P", 2, 0), ("310P", 0.75, 0), namespace="team", created=3600.0),
        pod("c", ("", 4, 0)),
    ]  # fmt: skip
    claim = api.Claim(
        id="c", uid="a", namespace="default", name="a", node="n1", state="bound", reason="", devices=(), decided_by="p",
        decided_at=3600.0,
    )  # fmt: skip
    found = held(pods, [claim], lambda each: each.namespace, now=2 * 3600.0)
    # The claim of the one was decided, and the other created, an hour ago; of the third nothing is known.
    assert [(each.holder, each.model, each.pods, each.cards, each.memory, each.card_hours) for each in found] == [
        ("default", "unknown", 1, 4, 0, 0.0),
        ("team", "310P", 1, 2.75, 0, 2.75),
        ("default", "A100", 1, 0.5, 5000, 0.5),
        ("default", "T4", 1, 0.25, 4000, 0.25),
        ("team", "T4", 1, 0.25, 4000, 0.25),
    ]


def test_a_cordoned_card_is_not_free():
    cordon = api.Cordon(by="alice", reason="", since="")
    (found,) = totals([device(0, cordon=cordon, largest_free=0), device(1)], [NODE])
    assert (found.cards, found.unavailable, found.whole_cards_free, found.free_memory) == (2, 1, 1, 16000)


def test_a_mig_card_offers_its_largest_instance_and_no_cores():
    card = device(0, "mig", memory_used=12000, cores_total=0, slots_used=2, largest_free=3000)
    found = totals([card], [NODE])
    assert (found[0].largest_free_memory, found[0].largest_free_cores, found[0].fragmented) == (3000, 0, 1.0)
    row = _models(found)[1]
    assert "3000Mi" in row
    assert "cores" not in row


def test_cards_that_count_by_cores_are_fragmented_by_cores():
    chips = [
        device(
            at, "mindcluster", memory_total=0, cores_total=8, cores_used=used, slots_used=bool(used), largest_free=free
        )
        for at, (used, free) in enumerate([(0, 8), (4, 4), (8, 0)])
    ]
    (found,) = totals(chips, [NODE])
    assert (found.whole_cards_free, found.largest_free_cores, found.fragmented) == (1, 8, round(4 / 12, 4))


async def test_pods_that_wait_only_for_fragmentation_are_counted_once_though_their_model_has_two_modes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = []

    class Reader:
        async def items(self, kind: type, state: str = "") -> tuple[Any, ...]:
            asked.append((kind, state))
            waiting = [pod(name, state="Pending", fragmented=model) for name, model in (("a", "T4"), ("b", "T4"))]
            other = pod("c", state="Pending", fragmented="A100")
            return {
                api.Device: (device(0), device(1, mode="mig")), api.Node: (NODE,), Queue: (), api.DriverDevices: (),
                api.Pod: (*waiting, other),
            }[kind]  # fmt: skip

    monkeypatch.setattr(top, "opened", lambda _: nullcontext(Reader()))
    await top.run_top(Source(None, None), "t4", "json")
    found = json.loads(capsys.readouterr().out)
    assert [each["mode"] for each in found["models"]] == ["hami-core", "mig"]
    assert found["pods_fragmented"] == {"T4": 2}
    assert (api.Pod, "pending") in asked
    await top.run_top(Source(None, None), "t4", "table")
    assert capsys.readouterr().out.splitlines()[-1].split() == ["T4", "2"]


def test_devices_of_claims_are_totals_by_class_and_driver() -> None:
    def of(driver: str, node: str, **classes: int) -> api.DriverDevices:
        found = sum(classes.values())
        return api.DriverDevices(driver=driver, node=node, devices=4, allocated=found, classes=classes, pods=())

    drivers = (of("a", "n1", gpu=2, mig=1), of("a", "n2", gpu=1), of("a", "n3"), of("b", "n1"))
    found = [(each.device_class, each.driver, each.allocated, each.nodes) for each in top.class_totals(drivers)]
    assert found == [("", "b", 0, 0), ("gpu", "a", 3, 2), ("mig", "a", 1, 1)]
    assert {(each.driver_allocated, each.driver_devices) for each in top.class_totals(drivers)} == {(4, 12), (0, 4)}


async def test_a_metrics_service_without_the_list_of_drivers_has_no_table_of_device_classes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def get(server: Endpoint, path: str, parameters: object) -> tuple[int, bytes]:
        known = path != "/api/v1/drivers"
        return (200, b'{"items":[]}') if known else (404, b'{"error":"there is no /api/v1/drivers"}')

    monkeypatch.setattr(json_api, "get", get)
    run = cast("Run", SimpleNamespace(endpoint=Endpoint("http://metrics"), title="", schedulers=()))
    monkeypatch.setattr(top, "opened", lambda _: nullcontext(LiveReader(run, AsyncExitStack())))
    assert await top.run_top(Source(None, None), "", "json") == 0
    assert json.loads(capsys.readouterr().out)["device_classes"] == []
