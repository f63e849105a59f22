"""What the metrics service shows of the devices of ResourceSlices and ResourceClaims."""

import threading

import pytest
from deviceshare.model import DeviceClaim, DeviceResult, Gone, PodDeviceClaim, QueueFact
from deviceshare_bus.messages.subjects import fact, subject_of
from deviceshare_metrics import api
from deviceshare_metrics.core import MetricsCore
from deviceshare_metrics.core.accounts import queue_accounts
from deviceshare_metrics.core.changed_nodes import ChangedNodes
from deviceshare_metrics.core.visibility import Visibility, visible
from deviceshare_metrics.queries import Queries
from msgspec.structs import asdict, replace
from support import devices
from support.metrics import exposed, read, snapshot_of
from support.metrics_messages import claim, grants, ledger, node, outcome, pod

DRIVER = devices.DRIVER


def messages(*facts):
    return [(subject_of(each), each) for each in facts]


def using(name, *claims, **more):
    return pod(name, device_claims=tuple(PodDeviceClaim("c", f"ns/{each}") for each in claims), **more)


def core_with(*facts, more=()) -> MetricsCore:
    """Return the core of two nodes with four GPUs each."""
    slices = [devices.gpus("n1", 4), devices.gpus("n2", 4)]
    return read(node("n1"), node("n2"), *messages(*slices, devices.gpu_class(), *facts), *more)


def test_devices_are_counted_by_driver_node_and_class():
    one = devices.allocated(devices.claim("one", 2), [("n1", "gpu-0"), ("n1", "gpu-1")], "uid-a")
    other = devices.allocated(devices.claim("other"), [("n1", "gpu-2")])
    found = snapshot_of(core_with(one, other, devices.claim("waits"), more=[using("a", "one", node="n1")]))
    assert found.drivers == (
        api.DriverDevices(driver=DRIVER, node="n1", devices=4, allocated=3, classes={"gpu": 3}, pods=("default/a",)),
        api.DriverDevices(driver=DRIVER, node="n2", devices=4, allocated=0, classes={}, pods=()),
    )
    assert dict(found.resource_claims) == {"reserved": 1, "allocated": 1, "pending": 1}


def test_shared_devices_count_once_and_access_of_administrators_not_at_all():
    first = devices.allocated(devices.claim("first"), [("n1", "gpu-0")])
    second = devices.allocated(devices.claim("second", class_name="gone"), [("n1", "gpu-0")])
    assert second.allocation is not None
    result = replace(second.allocation.devices.results[0], admin_access=True, device="gpu-3")
    watches = replace(
        second,
        key="ns/watches",
        allocation=replace(second.allocation, devices=replace(second.allocation.devices, results=(result,))),
    )
    (on_n1, _) = snapshot_of(core_with(first, second, watches)).drivers
    assert (on_n1.allocated, on_n1.classes) == (1, {"gpu": 1, "(unknown)": 1})


def test_alternatives_count_for_their_own_class():
    requests = [{"name": "r", "firstAvailable": [{"name": n, "deviceClassName": n} for n in ("large", "gpu")]}]
    asked = devices.claim("c", spec={"devices": {"requests": requests}})
    has = devices.allocated(asked, [("n1", "gpu-0")])
    assert has.allocation is not None
    result = replace(has.allocation.devices.results[0], request="r/gpu")
    has = replace(has, allocation=replace(has.allocation, devices=replace(has.allocation.devices, results=(result,))))
    assert snapshot_of(core_with(has)).drivers[0].classes == {"gpu": 1}


def test_queues_that_name_devices_count_claims_as_placement_does():
    queue = QueueFact(name="default", capability={"deviceclass/gpu": 4})
    has = devices.allocated(devices.claim("one", 2), [("n1", "gpu-0"), ("n1", "gpu-1")], "uid-a", "uid-b")
    known = {"queue": "default", "scheduler": "s"}
    pods = [*(using(name, "one", node="n1", **known) for name in "ab"), using("w", "waits", **known)]
    account = queue_accounts(core_with(queue, has, devices.claim("waits", 3), more=pods).store).account("default")
    assert account.used["deviceclass/gpu"] == 2
    assert account.requested["deviceclass/gpu"] == 5
    assert account.bound == {"deviceclass/gpu": 4}


def test_only_the_newest_generation_of_a_pool_is_published():
    newer = replace(devices.gpus("n1", 2, generation=2), name="n1-more")
    assert [each.devices for each in snapshot_of(core_with(newer)).drivers] == [2, 4]
    core = core_with(newer)
    read((fact("deviceslice", "n1-more"), Gone()), into=core)
    assert [each.devices for each in snapshot_of(core).drivers] == [4, 4]


def test_a_pod_has_the_devices_of_its_claims():
    has = devices.allocated(devices.claim("one"), [("n1", "gpu-0")], "uid-a")
    bound = using("a", "one", node="n1")
    decided = DeviceClaim("ns/two", "uid-two", (DeviceResult("r", DRIVER, "n1", "gpu-1"),), "n1")
    more = [
        bound,
        using("b", "two"),
        using("w", "one"),
        ledger(claim("b", grants=(), resources=(), devices=(decided,))),
    ]
    found = snapshot_of(core_with(has, devices.claim("two"), more=more))
    shown = {each.name: ([(one.claim, one.id) for one in each.devices], each.resource_claims) for each in found.pods}
    assert shown == {
        "a": ([("one", f"{DRIVER}/n1/gpu-0")], ("one",)),
        "b": ([("two", f"{DRIVER}/n1/gpu-1")], ("two",)),
        "w": ([], ("one",)),
    }
    assert [each.id for each in found.claims[0].devices] == [f"{DRIVER}/n1/gpu-1"]
    ended = snapshot_of(core_with(has, more=[using("a", "one", node="n1", ended=True)]))
    assert ended.pods[0].devices == ()


def test_a_class_may_be_named_unknown():
    first = devices.allocated(devices.claim("first", class_name="unknown"), [("n1", "gpu-0")])
    second = devices.allocated(devices.claim("second", class_name="gone"), [("n1", "gpu-1")])
    (on_n1, _) = snapshot_of(core_with(first, second, devices.gpu_class("unknown"))).drivers
    assert on_n1.classes == {"unknown": 1, "(unknown)": 1}


def test_a_pod_has_no_devices_by_access_of_administrators():
    has = devices.allocated(devices.claim("one"), [("n1", "gpu-0")], "uid-a")
    assert has.allocation is not None
    (result,) = has.allocation.devices.results
    results = (replace(result, admin_access=True),)
    has = replace(has, allocation=replace(has.allocation, devices=replace(has.allocation.devices, results=results)))
    access = DeviceResult("r", DRIVER, "n1", "gpu-0", admin=True)
    made = claim("a", grants=(), resources=(), devices=(DeviceClaim("ns/one", "uid-one", (access,), "n1"),))
    for fact_of_claim in (has, devices.claim("one")):
        (shown,) = snapshot_of(core_with(fact_of_claim, more=[using("a", "one"), ledger(made)])).pods
        assert shown.devices == ()


def test_a_pod_keeps_its_cards_beside_the_devices_of_claims():
    has = devices.allocated(devices.claim("one"), [("n1", "gpu-0")], "uid-a")
    more = [using("a", "one", node="n1"), ledger(claim("a", grants=grants())), outcome("bound")]
    (shown,) = snapshot_of(core_with(has, more=more)).pods
    assert [(each.container, each.claim) for each in shown.devices] == [("main", ""), ("", "one")]


async def test_a_node_shows_all_claims_of_its_devices():
    """Also those that another scheduler allocated, whose pods are not known."""
    one = devices.allocated(devices.claim("one"), [("n1", "gpu-0")], "uid-a")
    other = devices.allocated(devices.claim("other"), [("n1", "gpu-1")], "uid-unknown")
    elsewhere = devices.allocated(devices.claim("elsewhere"), [("n2", "gpu-1")])
    core = core_with(one, other, elsewhere, more=[using("a", "one", node="n1")])
    detail = await Queries(core).node("n1")
    assert detail.drivers == tuple(each for each in snapshot_of(core).drivers if each.node == "n1")
    assert detail.drivers[0].allocated == 2


async def test_the_claims_of_the_cluster_are_not_read_on_the_event_loop():
    core = core_with(devices.allocated(devices.claim("one"), [("n1", "gpu-0")], "uid-a"), more=[using("a", "one")])
    loop, read_by = threading.get_ident(), []

    class Watched(dict):
        def items(self):
            read_by.append(threading.get_ident())
            return super().items()

        def copy(self):
            return Watched(self)

    core.store.device_claims = Watched(core.store.device_claims)
    assert (await Queries(core).node("n1")).drivers[0].allocated == 1
    assert read_by
    assert loop not in read_by


@pytest.mark.parametrize("of_pod", [False, True])
def test_a_part_of_the_state_shares_no_dict_that_changes(of_pod):
    core, nodes = core_with(), ChangedNodes()
    part = nodes.part_of_pod(core.store, "default", "a") if of_pod else nodes.part(core.store, ["n1"])
    fields = {name for name, value in asdict(core.store).items() if isinstance(value, dict)}
    assert [name for name in fields if getattr(part, name) is getattr(core.store, name)] == []


def test_pods_of_hidden_namespaces_are_not_named():
    one = devices.allocated(devices.claim("one"), [("n1", "gpu-0")], "uid-a")
    found = snapshot_of(core_with(one, more=[using("a", "one", node="n1")])).drivers
    shown = visible(found, Visibility(frozenset(["other"])))
    assert [(each.allocated, each.pods) for each in shown] == [(1, ()), (0, ())]


def test_metrics_have_classes_that_exist_and_drivers():
    one = devices.allocated(devices.claim("one", 2), [("n1", "gpu-0"), ("n2", "gpu-1")])
    core = core_with(one, devices.gpu_class("mig"), devices.claim("waits"))
    lines = exposed(core).splitlines()
    for line in (
        'deviceshare_resourceclaims{state="pending"} 1.0',
        'deviceshare_resourceclaims{state="allocated"} 1.0',
        'deviceshare_resourceclaims{state="reserved"} 0.0',
        f'deviceshare_driver_devices{{driver="{DRIVER}"}} 8.0',
        f'deviceshare_driver_devices_allocated{{driver="{DRIVER}"}} 2.0',
        'deviceshare_deviceclass_devices_allocated{device_class="gpu"} 2.0',
        'deviceshare_deviceclass_devices_allocated{device_class="mig"} 0.0',
    ):
        assert line in lines


def test_accounts_of_queues_keep_the_pods_that_wait_and_those_that_may_share_claims():
    core = core_with(devices.claim("one"), more=[pod("a", node="n1"), pod("b"), using("c", "one", node="n1")])
    assert queue_accounts(core.store)._pods.keys() == {"uid-b", "uid-c"}
