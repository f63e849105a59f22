"""ResourceClaims of which a queue counts the devices."""

import json
from collections import Counter
from typing import Any

from deviceshare.families.dra import ClusterDevices
from deviceshare.kernels import Changes
from deviceshare.model import DeviceClaimFact, DeviceResult
from deviceshare.objects.devices import decode_device_claim
from support.devices import DRIVER

BIG, SMALL, MEMORY = "deviceclass/big", "deviceclass/small", "memory.deviceclass/small"


def choosing(name: str, **devices: Any) -> DeviceClaimFact:
    """Return a claim of which only a place shows what it counts: one big device, or else two small ones."""
    alternatives = [{"name": "one", "deviceClassName": "big"}, {"name": "two", "deviceClassName": "small", "count": 2}]
    requests = [{"name": "r", "firstAvailable": alternatives}]
    obj = {"metadata": {"name": name, "namespace": "ns"}, "spec": {"devices": {"requests": requests, **devices}}}
    return decode_device_claim(json.dumps(obj).encode())


def exactly(**request: Any) -> DeviceClaimFact:
    requests = [{"name": "r", "exactly": {"deviceClassName": "small", **request}}]
    obj = {"metadata": {"name": "c", "namespace": "ns"}, "spec": {"devices": {"requests": requests}}}
    return decode_device_claim(json.dumps(obj).encode())


def small(*devices: str, **more: Any) -> tuple[DeviceResult, ...]:
    return tuple(DeviceResult("r", DRIVER, "pool", device, **more) for device in devices)


def cluster_devices() -> ClusterDevices:
    return ClusterDevices(Changes(), [], {})


def devices(amounts: Counter[str]) -> Counter[str]:
    return +Counter({name: amount for name, amount in amounts.items() if "deviceclass/" in name})
