"""Objects of each kind whose facts depend on nothing else are on CLUSTER as long as they exist."""

import json

import pytest
from deviceshare.model import Gone
from deviceshare.objects import DECODERS, DEVICE_KINDS, KINDS, STORAGE_KINDS
from deviceshare_bus.messages.subjects import address, subject_of
from deviceshare_cluster.interface import Change, ChangeType
from support.inventory import started, work_off
from support.malformed import valid


@pytest.mark.parametrize("kind", [kind for kind in DECODERS if kind not in ("Pod", *STORAGE_KINDS)])
def test_an_object_is_published_until_it_is_deleted(kind: str) -> None:
    obj = valid(kind)
    obj["metadata"]["resourceVersion"] = "5"
    name, namespace = obj["metadata"]["name"], obj["metadata"].get("namespace", "")
    row = {**KINDS, **DEVICE_KINDS}[kind]
    assert bool(namespace) == row.namespaced
    raw = json.dumps(obj).encode()
    fact = DECODERS[kind](raw)
    assert type(fact) is row.fact
    bare = {"metadata": {key: obj["metadata"].get(key) for key in ("name", "namespace", "uid", "resourceVersion")}}
    if kind not in ("ResourceSlice", "DeviceTaintRule"):  # one without a spec is invalid
        assert fact != DECODERS[kind](json.dumps(bare).encode()), "the decoder reads nothing of the object"
    driver, bus, recorded = started([Change(ChangeType.APPLIED, kind, namespace, name, 5, raw)], revision=9)
    subject = subject_of(fact)
    assert address(subject).key == (f"{namespace}/{name}" if namespace else name)
    assert bus.fact(subject) == fact
    assert recorded == []
    driver.deliver([Change(ChangeType.DELETED, kind, namespace, name, 11, b"")])
    work_off(driver, bus)
    assert isinstance(bus.fact(subject), Gone)
