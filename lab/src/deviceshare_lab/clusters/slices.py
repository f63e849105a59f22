"""Nodes with ResourceSlices as NVIDIA's driver publishes them, DeviceClasses, and claims for one device."""

import json
from collections.abc import Iterator
from functools import cache
from random import Random
from typing import Any, NamedTuple
from uuid import UUID

from deviceshare.model import (
    DeviceClaimFact,
    DeviceClassFact,
    DeviceSliceFact,
    GroupKey,
    PodDeviceClaim,
    PodFact,
    PodUid,
)
from deviceshare.model.device_objects import Attribute
from deviceshare.objects.devices import decode_device_claim, decode_device_class, decode_device_slice
from msgspec.structs import replace

DRIVER = "gpu.nvidia.com"
_UUIDS = ("uuid", "parentUUID")
_Json = dict[str, Any]


class Profile(NamedTuple):
    """A MIG profile of an A100 with 40 GB: ``slices`` of memory at one of ``starts``, and its other amounts."""

    name: str
    number: int
    starts: tuple[int, ...]
    slices: int
    amounts: tuple[int, int, int, int, int, int]
    """Multiprocessors, copy engines, decoders, JPEG and OFA engines, MiB."""


WHOLE = (98, 7, 5, 1, 1, 40192)
PROFILES = (
    Profile("1g.10gb", 15, (0, 2, 4, 6), 2, (14, 1, 1, 0, 0, 9856)),
    Profile("1g.5gb", 19, tuple(range(7)), 1, (14, 1, 0, 0, 0, 4864)),
    Profile("1g.5gb+me", 20, tuple(range(7)), 1, (14, 1, 1, 1, 1, 4864)),
    Profile("2g.10gb", 14, (0, 2, 4), 2, (28, 2, 1, 0, 0, 9856)),
    Profile("3g.20gb", 9, (0, 4), 4, (42, 3, 2, 0, 0, 19968)),
    Profile("4g.20gb", 5, (0,), 4, (56, 4, 2, 0, 0, 19968)),
    Profile("7g.40gb", 0, (0,), 8, WHOLE),
)
KINDS = {"h100": 8, "a100-mig": 4}
"""The kinds of nodes, and how many cards they have."""


def classes() -> list[DeviceClassFact]:
    """Return the DeviceClasses of the driver: whole cards and partitions."""
    found = []
    for kind in ("gpu", "mig"):
        expression = f"device.driver == '{DRIVER}' && device.attributes['{DRIVER}'].type == '{kind}'"
        spec = {"selectors": [{"cel": {"expression": expression}}]}
        found.append(
            decode_device_class(json.dumps({"metadata": {"name": f"{kind}.nvidia.com"}, "spec": spec}).encode())
        )
    return found


def slices(kind: str, node: str) -> Iterator[DeviceSliceFact]:
    """Yield the ResourceSlices of a node; each card has a uuid of its own."""
    rng = Random(node)  # noqa: S311 - repeatable, not secret
    uuids = {str(at): Attribute(string=f"GPU-{UUID(int=rng.getrandbits(128))}") for at in range(KINDS[kind])}
    for each in _of_one_node(kind):
        devices = tuple(
            replace(
                device,
                attributes={
                    name: uuids[value.string] if name in _UUIDS and value.string is not None else value
                    for name, value in device.attributes.items()
                },
            )
            for device in each.spec.devices
        )
        spec = replace(each.spec, node_name=node, pool=replace(each.spec.pool, name=node), devices=devices)
        yield replace(each, name=each.name.replace("NODE", node), spec=spec)


@cache
def _of_one_node(kind: str) -> tuple[DeviceSliceFact, ...]:
    """Return the slices of a node; in place of uuids they have the numbers of cards."""
    cards = KINDS[kind]
    if kind == "h100":
        return (_slice(0, 1, devices=[_card(at, "NVIDIA H100 80GB HBM3", "Hopper", "9.0.0") for at in range(cards)]),)
    counters = _slice(0, cards + 1, sharedCounters=[_counters(at) for at in range(cards)])
    return (counters, *(_slice(1 + at, cards + 1, devices=list(_partitions(at))) for at in range(cards)))


def claim(key: str, owner: str, profile: str = "", count: int = 1) -> DeviceClaimFact:
    """Return a claim for partitions with a profile, or for whole cards."""
    exactly: _Json = {"deviceClassName": "mig.nvidia.com" if profile else "gpu.nvidia.com", "count": count}
    if profile:
        expression = f"device.attributes['{DRIVER}'].profile == '{profile}'"
        exactly["selectors"] = [{"cel": {"expression": expression}}]
    namespace, name = key.split("/")
    metadata: _Json = {"name": name, "namespace": namespace, "uid": f"uid-{name}"}
    metadata |= {"ownerReferences": [{"uid": owner, "controller": True}]}
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}
    return decode_device_claim(json.dumps({"metadata": metadata, "spec": spec}).encode())


def claiming(fact: DeviceClaimFact) -> PodFact:
    """Return the pod of a claim, without requests."""
    uid, used = PodUid(fact.owner), (PodDeviceClaim("gpu", fact.key, "template"),)
    return PodFact(namespace="ns", name=fact.owner, uid=uid, group=GroupKey(f"pod/{uid}"), device_claims=used)


def _slice(number: int, count: int, **content: Any) -> DeviceSliceFact:
    pool = {"name": "NODE", "generation": 1, "resourceSliceCount": count}
    obj = {
        "metadata": {"name": f"NODE-{DRIVER}-{number:02}"},
        "spec": {"driver": DRIVER, "nodeName": "NODE", "pool": pool, **content},
    }
    return decode_device_slice(json.dumps(obj).encode())


def _card(at: int, product: str, architecture: str, compute: str) -> _Json:
    attributes = {
        **_attributes(at, product, architecture, compute),
        "type": {"string": "gpu"},
        "uuid": {"string": str(at)},
    }
    return {"name": f"gpu-{at}", "attributes": attributes, "capacity": {"memory": {"value": "81559Mi"}}}


def _attributes(at: int, product: str, architecture: str, compute: str) -> _Json:
    return {
        "productName": {"string": product},
        "brand": {"string": "Nvidia"},
        "architecture": {"string": architecture},
        "cudaComputeCapability": {"version": compute},
        "driverVersion": {"version": "580.65.6"},
        "cudaDriverVersion": {"version": "13.0.0"},
        "resource.kubernetes.io/pciBusID": {"string": f"0000:{16 * at + 7:02x}:00.0"},
        "resource.kubernetes.io/pcieRoot": {"string": f"pci0000:{16 * at + 7:02x}"},
    }


def _partitions(at: int) -> Iterator[_Json]:
    card = _card(at, "NVIDIA A100-SXM4-40GB", "Ampere", "8.0.0")
    card["capacity"] = _capacity(WHOLE)
    card["consumesCounters"] = [_uses(at, WHOLE, range(8))]
    yield card
    uuid = card["attributes"]["uuid"]
    for profile in PROFILES:
        for start in profile.starts:
            own = {"type": {"string": "mig"}, "profile": {"string": profile.name}, "parentUUID": uuid}
            plain = profile.name.replace(".", "").replace("+", "")
            yield {
                "name": f"gpu-{at}-mig-{plain}-{profile.number}-{start}",
                "attributes": {**_attributes(at, "NVIDIA A100-SXM4-40GB", "Ampere", "8.0.0"), **own},
                "capacity": _capacity(profile.amounts),
                "consumesCounters": [_uses(at, profile.amounts, range(start, start + profile.slices))],
            }


def _capacity(amounts: tuple[int, ...]) -> _Json:
    names = ("multiprocessors", "copyEngines", "decoders", "jpegEngines", "ofaEngines")
    return {name: {"value": str(each)} for name, each in zip(names, amounts, strict=False)} | {
        "memory": {"value": f"{amounts[-1]}Mi"}
    }


def _uses(at: int, amounts: tuple[int, ...], memory: range) -> _Json:
    return {"counterSet": f"gpu-{at}-counter-set", "counters": _amounts(amounts, memory)}


def _counters(at: int) -> _Json:
    return {"name": f"gpu-{at}-counter-set", "counters": _amounts(WHOLE, range(8))}


def _amounts(amounts: tuple[int, ...], memory: range) -> _Json:
    names = ("multiprocessors", "copy-engines", "decoders", "jpeg-engines", "ofa-engines")
    found: _Json = {name: {"value": str(each)} for name, each in zip(names, amounts, strict=False)}
    found["memory"] = {"value": f"{amounts[-1]}Mi"}
    return found | {f"memory-slice-{number}": {"value": "1"} for number in memory}
