"""Inventory publishes the labels of namespaces, and those of all pods, for selectors of other pods."""

from deviceshare.model import Gone, NamespaceFact
from deviceshare_cluster.interface import Change
from support.inventory import change, pod, started, work_off


def namespace(revision: int, *, deleted: bool = False, **labels: str) -> Change:
    return change("Namespace", "ml", revision, deleted=deleted, metadata={"labels": labels})


def test_a_namespace_is_published_with_its_labels_until_it_is_gone() -> None:
    driver, bus, _ = started([namespace(1, env="dev")], revision=2)
    assert bus.fact("cluster.namespace.ml") == NamespaceFact(name="ml", revision="1", labels=(("env", "dev"),))
    work_off(driver, bus, namespace(3, env="prod"))
    assert bus.fact("cluster.namespace.ml").labels == (("env", "prod"),)
    work_off(driver, bus, namespace(4, deleted=True))
    assert isinstance(bus.fact("cluster.namespace.ml"), Gone)


def test_labels_of_pods_of_other_schedulers_without_devices_are_published() -> None:
    _, bus, _ = started([pod(scheduler="other", node="n1", labels={"app": "db"})], revision=2)
    assert bus.fact("cluster.pod.u1").labels == (("app", "db"),)
