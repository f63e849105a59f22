"""The binder allocates the ResourceClaims of a pod before it binds the pod, and frees them if it does not bind it."""

import json

import msgspec
import pytest
from deviceshare.conf import SCHEDULER
from deviceshare.model import (
    ConfigFact,
    DeviceClaimFact,
)
from deviceshare.objects.devices import decode_device_taint_rule
from deviceshare_binder.core.commands import AllocateClaims, BindPod, FencePod, ReleaseClaims
from deviceshare_binder.core.devices import Devices
from deviceshare_binder.core.events import (
    ClaimsAllocated,
    ClaimsReleased,
    ClusterFailed,
    SchedulerConfigured,
)
from deviceshare_binder.core.views import NodeView
from deviceshare_cluster.interface import BindState
from msgspec.structs import replace
from support.binder import messages
from support.binder_devices import CLAIM, FACT, GPU, MINE, ONE, POD, Scene, status_of
from support.devices import DRIVER, allocated, claim, gpu_class, gpus


def test_devices_are_allocated_then_the_pod_is_bound() -> None:
    core = Scene()
    (request,) = core.take(0.0)
    assert isinstance(request, AllocateClaims)
    assert (request.name, request.uid, request.claims[0].key, request.claims[0].uid) == ("a", "u1", "ns/one", "uid-one")
    status = status_of(request)
    assert status.pop("allocationTimestamp").endswith("Z")
    fields = {"key": "metadata.name", "operator": "In", "values": ["n1"]}
    assert status == {
        "devices": {"results": [{"request": "r", "driver": DRIVER, "pool": "n1", "device": "gpu-0"}]},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [fields]}]},
    }
    core.handle(ClaimsAllocated("c1"), 0.1)
    assert core.take(0.2) == [], "facts do not show it yet"
    core.fact(MINE, 0.3)
    (bind,) = core.take(0.3)
    assert isinstance(bind, BindPod)


def test_devices_that_a_rule_taints_meanwhile_are_not_allocated_unless_the_rule_goes() -> None:
    spec = {"deviceSelector": {"pool": "n1"}, "taint": {"key": "broken", "effect": "NoSchedule"}}
    rule = decode_device_taint_rule(json.dumps({"metadata": {"name": "r"}, "spec": spec}).encode())
    core = Scene(FACT, rule)
    assert core.take(0.0) == []
    assert "cannot have the devices gpu-0 of node n1" in core.refusal(10.1)
    again = Scene(FACT, rule)
    assert again.take(0.0) == []
    again.gone(rule)
    assert [type(each) for each in again.take(1.1)] == [AllocateClaims]


def test_a_claim_is_not_read_where_facts_have_its_revision_without_finalizers() -> None:
    for fact, untouched in (
        (replace(FACT, revision="7"), "7"),
        (replace(FACT, revision="7", no_finalizers=False), ""),
        (replace(MINE, revision="7", reserved_for=()), ""),
    ):
        (request,) = Scene(fact).take(0.0)
        assert isinstance(request, AllocateClaims)
        assert request.claims[0].untouched == untouched


def test_a_successor_goes_on_with_what_is_written() -> None:
    (bind,) = Scene(MINE).take(0.0)
    assert isinstance(bind, BindPod)
    (request,) = Scene(replace(MINE, reserved_for=())).take(0.0)
    assert isinstance(request, AllocateClaims), "the reservation is missing"


def test_a_claim_that_has_devices_is_reserved() -> None:
    core = Scene(replace(MINE, reserved_for=("other",)), made=replace(CLAIM, devices=(replace(ONE, results=()),)))
    (request,) = core.take(0.0)
    assert isinstance(request, AllocateClaims)
    assert request.claims[0].allocation == ""


def test_a_claim_waits_for_the_pod_that_allocates_it() -> None:
    core = Scene(made=replace(CLAIM, devices=(replace(ONE, results=()),)))
    assert core.take(0.0) == []
    core.fact(replace(MINE, reserved_for=("other",)), 5.0)
    (request,) = core.take(5.0)
    assert isinstance(request, AllocateClaims)


def test_a_claim_whose_devices_no_pod_allocates_any_more_is_refused_after_the_grace() -> None:
    core = Scene(made=replace(CLAIM, devices=(replace(ONE, results=()),)))
    core.node("n2", NodeView(name="n2"))
    core.ledger("n2", [replace(CLAIM, id="c2", uid="u2", name="b", devices=(ONE,))])
    for at in (0.0, 10.0, 20.0, 30.0):
        assert not [each for each in core.take(at) if getattr(each, "claim", "") == "c1"]
    core.ledger("n2", [])
    core.take(40.0)
    assert "has no devices" in core.refusal(51.0)


@pytest.mark.parametrize(
    ("fact", "reason"),
    [
        (replace(FACT, terminating=True), "is being deleted"),
        (allocated(FACT, [("n1", "gpu-1")], "u1"), "was allocated elsewhere"),
    ],
)
def test_a_claim_that_cannot_be_used_is_refused(fact: DeviceClaimFact, reason: str) -> None:
    assert reason in Scene(fact).refusal(0.0)


def test_a_claim_of_another_uid_is_refused_unless_newer_facts_arrive() -> None:
    core = Scene(replace(FACT, uid="another"))
    assert core.take(0.0) == []
    core.fact(FACT, 1.0)
    assert isinstance(core.take(1.0)[0], AllocateClaims)
    core = Scene(replace(FACT, uid="another"))
    assert core.take(0.0) == []
    assert "another one than at the time of the decision" in core.refusal(10.1)


def test_devices_that_others_have_are_not_allocated() -> None:
    other = claim("two")
    core = Scene(FACT, allocated(other, [("n1", "gpu-0")], "other"))
    assert core.take(0.0) == []
    core.fact(other, 1.0)
    assert isinstance(core.take(1.0)[0], AllocateClaims), "it was freed"
    core = Scene(FACT, allocated(other, [("n1", "gpu-0")], "other"))
    core.take(0.0)
    assert "cannot have the devices gpu-0 of node n1" in core.refusal(10.1)


def test_devices_that_are_gone_are_not_allocated() -> None:
    core = Scene()
    core.fact(gpus("n1", 0))
    core.take(0.0)
    assert "cannot have the devices" in core.refusal(10.1)


def test_an_error_of_devices_names_the_node_of_the_claim() -> None:
    """Nodes with equal devices share the error."""
    core = Scene()
    core.fact(gpu_class(expression='device.attributes["gpu.example.com"].absent == "x"'))
    core.take(0.0)
    assert "node n1: class gpu: " in core.refusal(10.1)


def test_where_others_allocate_a_pod_is_bound_when_it_is_known_what_they_wrote() -> None:
    core = Scene()
    core.take(0.0)
    core.handle(ClaimsAllocated("c1"), 0.1)
    core.fact(allocated(claim("two"), [("n1", "gpu-1")], "other"), 0.1)
    core.fact(MINE, 0.2)
    assert core.take(0.2) == []
    core.fact(allocated(claim("three"), [("n1", "gpu-0")], "third"), 1.0)
    assert "has another one as well" in core.refusal(1.2)
    core = Scene()
    core.fact(allocated(claim("two"), [("n1", "gpu-1")], "other"), 0.0)
    core.take(3600.5)
    core.handle(ClaimsAllocated("c1"), 3600.6)
    core.fact(MINE, 3600.7)
    (bind,) = core.take(3600.7)
    assert isinstance(bind, BindPod), "not for more than an hour"


def is_bound_at_once(core: Scene) -> bool:
    """Return whether the pod is bound as soon as facts show what was allocated for it."""
    core.take(0.2)
    core.handle(ClaimsAllocated("c1"), 0.3)
    core.fact(MINE, 0.3)
    return [type(each) for each in core.take(0.3)] == [BindPod]


def test_what_another_replica_allocates_is_ours_though_its_ledger_is_known_later() -> None:
    """It is known by its pod, which waits for us. A pod of another scheduler is known when it has a node."""
    theirs = allocated(claim("two"), [("n1", "gpu-1")], "u2", "more")
    for node, ours in (("", True), ("n1", False)):
        core = Scene()
        core.pod("u2", replace(POD, uid="u2", name="b", node=node))
        core.fact(theirs, 0.1)
        assert is_bound_at_once(core) == ours
    late = Scene()
    late.ledger("n1", [])
    late.fact(MINE, 0.1)
    late.ledger("n1", [CLAIM])
    assert [type(each) for each in late.take(0.1)] == [BindPod]


@pytest.mark.parametrize(("device", "waits"), [("gpu-1", False), ("gone", True)])
def test_a_binder_that_starts_knows_by_ledgers_who_allocated_before(device: str, *, waits: bool) -> None:
    core = Scene(started=False)
    of_two = replace(ONE, key="ns/two", uid="uid-two", results=(replace(GPU, device="gpu-1"),))
    core.ledger("n1", [CLAIM, replace(CLAIM, id="c2", uid="u2", name="b", devices=(of_two,))])
    core.fact(allocated(claim("two"), [("n1", device)], "u2"))
    core.fact(FACT)
    core.start()
    assert is_bound_at_once(core) != waits


def test_without_other_schedulers_a_pod_does_not_wait_for_them() -> None:
    for scope in ("exclusive", "{nodes: {of: us}}"):
        core = Scene()
        core.node("n1", NodeView(name="n1", labels={"of": "us"}))
        core.fact(allocated(claim("two"), [("n1", "gpu-1")], "other"), 0.0)
        text = f"[{{name: deviceshare, arguments: {{deviceshare.ResourceClaimsScope: {scope}}}}}]"
        core.handle(SchedulerConfigured(ConfigFact(name=SCHEDULER, text=text)))
        assert is_bound_at_once(core)
    outside = Scene()
    outside.handle(SchedulerConfigured(ConfigFact(name=SCHEDULER, text=text)))
    assert outside.take(0.0) == []
    assert "cannot have the devices gpu-0 of node n1" in outside.refusal(10.1)


def test_what_a_ledger_has_is_ours_though_the_pod_is_deleted_meanwhile() -> None:
    two = replace(CLAIM, id="c2", uid="u2", name="b", devices=(replace(ONE, key="ns/two", uid="uid-two"),))
    for device, ours in (("gpu-1", True), ("gpu-0", False)):
        core = Scene()
        result = replace(GPU, device=device)
        made = replace(two, devices=(replace(two.devices[0], results=(replace(GPU, device="gpu-1"),)),))
        core.ledger("n1", [CLAIM, made])
        core.fact(allocated(claim("two"), [("n1", result.device)], "u2"), 0.1)
        core.fact(claim("two"), 0.1)
        assert is_bound_at_once(core) == ours, "not so if others allocated another one"


def test_a_refused_allocation_is_the_reason() -> None:
    core = Scene()
    core.take(0.0)
    core.handle(ClaimsAllocated("c1", "ResourceClaim ns/one was allocated elsewhere"), 0.1)
    assert core.refusal(0.1) == "ResourceClaim ns/one was allocated elsewhere"


def test_what_was_written_is_released_when_the_claim_is_withdrawn() -> None:
    core = Scene(MINE)
    core.take(0.0)
    core.ledger("n1", [replace(CLAIM, withdraw=True)])
    core.bind_answered("c1", BindState.CHANGED, "", "", 0.1)
    (fence,) = core.take(0.2)
    assert isinstance(fence, FencePod)
    core.read_answered("c1", "", 0.3, {}, "2")
    (release,) = core.take(0.3)
    assert isinstance(release, ReleaseClaims)
    assert status_of(release) == {
        "devices": {"results": [{"request": "r", "driver": DRIVER, "pool": "n1", "device": "gpu-0"}]}
    }
    core.failed("c1", 0.4, 0.0)
    assert core.take(0.4) == []
    (again,) = core.take(20.0)
    assert again == release, "it is tried again until it is done"
    core.handle(ClaimsReleased("c1"), 20.1)
    (message,) = messages(core.take(20.1))
    assert [each.state for each in message.outcomes] == ["withdrawn"]


def test_shares_have_the_same_ids_whenever_they_are_written() -> None:
    shared = replace(GPU, shared=True, consumed=(("memory", "1Gi"),))
    made = replace(CLAIM, devices=(replace(ONE, results=(shared, replace(shared, device="gpu-1"))),))
    first = Scene(made=made).core._claims.facts.devices.release(made)
    second = Scene(made=made).core._claims.facts.devices.release(made)
    assert first == second
    ids = [each["shareID"] for each in json.loads(first.claims[0].allocation)["devices"]["results"]]
    assert len(set(ids)) == 2


def test_a_claim_for_other_resource_claims_than_the_pods_is_refused() -> None:
    foreign = replace(ONE, key="ns/two", uid="uid-two")
    core = Scene(FACT, claim("two"), made=replace(CLAIM, devices=(foreign,)))
    first = core.take(0.0)
    assert first == [], "no ResourceClaim of others is allocated"
    assert "other ResourceClaims than those of the pod" in core.refusal(10.1)


def test_a_claim_with_devices_that_is_not_valid_is_refused_after_the_grace() -> None:
    foreign = replace(ONE, key="ns/two", uid="uid-two")
    core = Scene(allocated(claim("two"), [("n1", "gpu-0")], "u1"), made=replace(CLAIM, devices=(foreign,)))
    for at in (0.0, 4.0, 8.0):
        assert core.take(at) == []
    assert "other ResourceClaims than those of the pod" in core.refusal(10.1)


def test_commands_are_written_to_the_core_log() -> None:
    (request,) = Scene().take(0.0)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(request), type=AllocateClaims) == request


def test_rows_of_nodes_grow_by_doubling() -> None:
    """Each growth copies all rows: one at a time they took minutes with the nodes of a large cluster."""
    views = {f"n{at}": NodeView(name=f"n{at}") for at in range(2_000)}
    devices = Devices(views)
    devices.put(None, gpu_class())
    sizes = set()
    for at in range(2_000, 3_000):
        devices.put_node(f"n{at}", NodeView(name=f"n{at}"))
        sizes.add((devices._facts.rows, devices._known.changes.rows))
    assert len(sizes) <= 2
    assert max(sizes)[0] < 2 * 3_000


def test_without_objects_of_devices_nothing_is_kept_of_nodes() -> None:
    views: dict[str, NodeView | None] = {}
    devices = Devices(views)
    for at in range(100):
        views[f"n{at}"] = view = NodeView(name=f"n{at}")
        devices.put_node(f"n{at}", view)
    assert not devices._nodes
    assert devices._facts.rows == 0
    devices.put(None, gpu_class())
    assert len(devices._nodes) == 100


# What is taken back when a step fails


@pytest.mark.parametrize("withdrawn", [True, False])
def test_the_devices_of_a_pod_that_is_bound_elsewhere_are_left_to_it(withdrawn: bool) -> None:
    core = Scene(MINE)
    core.take(0.0)
    if withdrawn:
        core.ledger("n1", [replace(CLAIM, withdraw=True)])
        core.bind_answered("c1", BindState.CHANGED, "", "", 0.1)
        core.take(0.2)
        core.read_answered("c1", "n2", 0.3, {}, "2")
    else:
        core.bind_answered("c1", BindState.ALREADY, "n2", "", 0.1)
    taken = core.take(0.3)
    assert not [each for each in taken if isinstance(each, ReleaseClaims)]
    (message,) = messages(taken)
    assert [each.state for each in message.outcomes] == ["withdrawn" if withdrawn else "refused"]


def test_an_allocation_without_an_answer_is_taken_back_when_the_claim_is_withdrawn() -> None:
    """It may have been written, by a part."""
    core = Scene()
    (request,) = core.take(0.0)
    assert isinstance(request, AllocateClaims)
    core.handle(ClusterFailed(request, "no answer", False, 0.0), 0.1)
    core.ledger("n1", [replace(CLAIM, withdraw=True)])
    core.take(20.0)
    core.read_answered("c1", "", 20.1, {}, "2")
    (release,) = core.take(20.1)
    assert isinstance(release, ReleaseClaims)


def test_the_devices_of_a_pod_that_is_gone_are_taken_back() -> None:
    core = Scene(MINE)
    core.take(0.0)
    core.bind_answered("c1", BindState.GONE, "", "", 0.1)
    (release,) = core.take(0.2)
    assert isinstance(release, ReleaseClaims)
