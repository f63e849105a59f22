"""Inventory publishes the labels of namespaces, and those of all pods, for selectors of other pods."""

import json

from deviceshare.model import Gone, NamespaceFact
from deviceshare_bus.messages.codec import decode_fact
from deviceshare_cluster.interface import Change, ChangeType
from support.inventory import started, work_off


def namespace(revision: int, *, kind: ChangeType = ChangeType.APPLIED, **labels: str) -> Change:
    metadata = {"name": "ml", "resourceVersion": str(revision), "labels": labels}
    raw = json.dumps({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}).encode()
    return Change(kind, "Namespace", "", "ml", revision, raw)


def pod(revision: int, **labels: str) -> Change:
    metadata = {"name": "a", "namespace": "ml", "uid": "u1", "resourceVersion": str(revision), "labels": labels}
    spec = {"nodeName": "n1", "schedulerName": "other", "containers": [{"name": "c", "image": "i"}]}
    raw = json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}).encode()
    return Change(ChangeType.APPLIED, "Pod", "ml", "a", revision, raw)


def read(bus, subject):
    return decode_fact(bus.messages[subject][1])


def test_a_namespace_is_published_with_its_labels_until_it_is_gone() -> None:
    driver, bus, _ = started([namespace(1, env="dev")], revision=2)
    assert read(bus, "cluster.namespace.ml") == NamespaceFact(name="ml", revision="1", labels=(("env", "dev"),))
    driver.deliver([namespace(3, env="prod")])
    work_off(driver, bus)
    assert read(bus, "cluster.namespace.ml").labels == (("env", "prod"),)
    driver.deliver([namespace(4, kind=ChangeType.DELETED)])
    work_off(driver, bus)
    assert isinstance(read(bus, "cluster.namespace.ml"), Gone)


def test_labels_of_pods_of_other_schedulers_without_devices_are_published() -> None:
    _, bus, _ = started([pod(1, app="db")], revision=2)
    assert read(bus, "cluster.pod.u1").labels == (("app", "db"),)
