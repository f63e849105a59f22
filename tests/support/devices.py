"""Facts of devices for tests: nodes with GPUs of one driver, classes, claims and pods that use them."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from deviceshare.conf import default_conf
from deviceshare.families.dra import MAX_STEPS, Answer, Layout, Solver
from deviceshare.families.dra.best_fit import NO_ORDER, DeviceOrder
from deviceshare.families.dra.pools import Features, Place
from deviceshare.families.dra.selectors import Selectors
from deviceshare.model import (
    AnyFact,
    DeviceClaimFact,
    DeviceClassFact,
    DeviceSliceFact,
    Now,
    PodDeviceClaim,
    PodFact,
    PodRequest,
)
from deviceshare.model.device_objects import (
    Condition,
    DeviceClass,
    DeviceStatus,
    ResourceClaim,
    ResourceSlice,
    Results,
)
from deviceshare.objects.devices import decode_device_claim, decode_device_class, decode_device_slice
from deviceshare.scheduler import Scheduler
from deviceshare_lab.conformance.devices.command import Used, taken
from msgspec.structs import replace
from support.builders import ask, container, pod

UNUSED: Used = {}
NO_FEATURES = Features(frozenset())
DRIVER = "gpu.example.com"
CONDITIONS: dict[str, Any] = {
    "binding_conditions": ("Attached", "Powered"),
    "binding_failure_conditions": ("Failed",),
}
NOW = Now(10.0, 1e9)
CPU: PodRequest = ask(container(cpu=100))


def gpu_class(name: str = "gpu", expression: str = "true") -> DeviceClassFact:
    spec = {"selectors": [{"cel": {"expression": expression}}]}
    return decode_device_class(json.dumps({"metadata": {"name": name}, "spec": spec}).encode())


def gpus(node: str, count: int, *, model: str = "a", generation: int = 1, slices: int = 1) -> DeviceSliceFact:
    """Return the slice of a node with its GPUs, each with a uuid of its own."""
    devices = [
        {"name": f"gpu-{at}", "attributes": {"model": {"string": model}, "uuid": {"string": f"{node}-{at}"}}}
        for at in range(count)
    ]
    pool = {"name": node, "generation": generation, "resourceSliceCount": slices}
    spec = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": devices}
    return decode_device_slice(json.dumps({"metadata": {"name": f"{node}-gpus"}, "spec": spec}).encode())


def claim(name: str, count: int = 1, *, owner: str = "", class_name: str = "gpu", **more: Any) -> DeviceClaimFact:
    """Return a claim in namespace ``ns`` that asks for a number of GPUs."""
    exactly = {"deviceClassName": class_name, "count": count}
    obj = {
        "metadata": {
            "name": name,
            "namespace": "ns",
            "uid": f"uid-{name}",
            "ownerReferences": [{"uid": owner, "controller": True}] if owner else [],
        },
        "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}},
        **more,
    }
    return decode_device_claim(json.dumps(obj).encode())


def allocated(fact: DeviceClaimFact, results: Iterable[tuple[str, str]], *pods: str) -> DeviceClaimFact:
    """Return a claim that has devices, by pool and name, for some pods."""
    found = [{"request": "r", "driver": DRIVER, "pool": pool, "device": device} for pool, device in results]
    fields = {"key": "metadata.name", "operator": "In", "values": [found[0]["pool"]]}
    status = {
        "allocation": {
            "devices": {"results": found},
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [fields]}]},
        },
        "reservedFor": [{"resource": "pods", "uid": uid, "name": f"pod-{uid}"} for uid in pods],
    }
    obj = {"metadata": {"name": "x"}, "status": status}
    of_status = decode_device_claim(json.dumps(obj).encode())
    return replace(
        fact,
        allocation=of_status.allocation,
        reserved_for=of_status.reserved_for,
        reserved_names=of_status.reserved_names,
    )


def with_conditions(fact: DeviceSliceFact) -> DeviceSliceFact:
    """Return a slice whose devices have binding conditions."""
    devices = (replace(each, **CONDITIONS) for each in fact.spec.devices)
    return replace(fact, spec=replace(fact.spec, devices=tuple(devices)))


def attaching(fact: DeviceClaimFact, *true: str, at: str = "") -> DeviceClaimFact:
    """Return a claim whose devices have binding conditions; ``true``: those of them that are, ``at``: its timestamp."""
    assert fact.allocation is not None
    results = tuple(replace(each, **CONDITIONS) for each in fact.allocation.devices.results)
    conditions = tuple(Condition(each, "True", "Because", "it is so") for each in true)
    statuses = (DeviceStatus(each.driver, each.pool, each.device, each.share_id, conditions) for each in results)
    allocation = replace(fact.allocation, devices=Results(results), allocation_timestamp=at)
    return replace(fact, allocation=allocation, device_statuses=tuple(statuses) if true else ())


def sharing(fact: DeviceClaimFact, pool: str, device: str, consumed: dict[str, Any]) -> DeviceClaimFact:
    """Return a claim that has a share of a device, as another scheduler wrote it."""
    result = {"request": "r", "driver": DRIVER, "pool": pool, "device": device, "shareID": "s"}
    status = {"allocation": {"devices": {"results": [{**result, "consumedCapacity": consumed}]}}}
    of_status = decode_device_claim(json.dumps({"metadata": {"name": "x"}, "status": status}).encode())
    return replace(fact, allocation=of_status.allocation)


def using(name: str, *claims: str, template: str = "", **more: Any) -> PodFact:
    """Return a pod that uses claims of its namespace; ``template``: of which they are made."""
    of_pod = tuple(PodDeviceClaim(f"c{at}", f"ns/{each}" if each else "", template) for at, each in enumerate(claims))
    request = replace(CPU, unsupported=("spec.resourceClaims",))
    return pod(name, request, device_claims=of_pod, **more)


def key_of(fact: AnyFact) -> str:
    """Return a key of the object of a fact."""
    return f"{type(fact).__name__} {getattr(fact, fact.named_by)}"


def scheduler_with(*facts: AnyFact, dra: bool = True) -> Scheduler:
    """Return a scheduler that knows these facts and places pods with ResourceClaims."""
    scheduler = Scheduler("s")
    scheduler.configure(replace(default_conf(), dra=dra))
    for fact in facts:
        scheduler.apply(key_of(fact), fact, NOW)
    scheduler.begin()
    return scheduler


def solve(
    place: Place,
    slices: Sequence[ResourceSlice],
    classes: dict[str, DeviceClass],
    claims: Sequence[ResourceClaim],
    *,
    used: Used = UNUSED,
    features: Features = NO_FEATURES,
    selectors: Selectors,
    order: DeviceOrder = NO_ORDER,
    max_steps: int = MAX_STEPS,
) -> Answer:
    """Return the devices of claims on a node."""
    layout = Layout(slices, place, features)
    return Solver(layout, classes, selectors, claims).solve(taken(layout, used), max_steps, order)


def count_steps(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list to which every search adds how many devices it tried."""
    found: list[int] = []
    solve = Solver.solve

    def counted(self: Solver, *args: Any) -> Answer:
        try:
            return solve(self, *args)
        finally:
            found.append(self.steps)

    monkeypatch.setattr(Solver, "solve", counted)
    return found


def place_device_claims(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the default configuration say that pods with ResourceClaims are placed, for tests without one."""
    conf = replace(default_conf(), dra=True)
    for module in ("conf.effective", "scheduler.cluster_state"):
        monkeypatch.setattr(f"deviceshare.{module}.default_conf", lambda: conf)
