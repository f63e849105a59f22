"""Inventory publishes the objects of storage that concern pods, once a pod that it serves uses a claim."""

from itertools import permutations

from deviceshare.model import Gone, PodFact, PodRequest, PodVolume, StorageClassFact, VolumeClaimFact, VolumeFact
from deviceshare.objects import STORAGE_KINDS
from deviceshare_bus.messages.codec import decode_fact
from deviceshare_cluster.interface import Change, Listed
from deviceshare_inventory.core.storage import Storage
from msgspec.structs import replace
from support.inventory import change, started, work_off


def claim(revision: int, name: str = "data", **more) -> Change:
    spec = {"volumeName": f"pv-{name}", "storageClassName": "fast"}
    return change("PersistentVolumeClaim", name, revision, namespace="ml", spec=spec, **more)


def volume(revision: int, name: str = "pv-data", **more) -> Change:
    return change("PersistentVolume", name, revision, **more)


def pod(revision: int, name: str, claimed: str, *, scheduler: str = "volcano", node: str = "", **more) -> Change:
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": claimed}}] if claimed else []
    spec = {"schedulerName": scheduler, "containers": [{"name": "c", "image": "i"}], "volumes": volumes}
    if node:
        spec["nodeName"] = node
    return change("Pod", name, revision, namespace="ml", spec=spec, **more)


STORAGE = [
    claim(1), claim(2, "other"), volume(3), volume(4, "pv-other"), volume(5, "pv-free"),
    change("StorageClass", "fast", 6, provisioner="csi.example.com"),
    change("CSINode", "n1", 7, spec={"drivers": [{"name": "csi.example.com", "allocatable": {"count": 3}}]}),
    change("CSINode", "n2", 8, spec={"drivers": []}),
]  # fmt: skip


def published(bus) -> dict[str, object]:
    kinds = ("cluster.volume", "cluster.storage")
    found = {subject: decode_fact(data) for subject, (_, data) in bus.messages.items() if subject.startswith(kinds)}
    return {subject.removeprefix("cluster."): fact for subject, fact in found.items() if not isinstance(fact, Gone)}


def test_nothing_is_published_where_no_pod_that_is_served_uses_claims() -> None:
    pods = [pod(10, "a", ""), pod(11, "b", "data", scheduler="other", node="n1")]
    _, bus, _ = started([*STORAGE, *pods], revision=20)
    assert published(bus) == {}


def test_what_concerns_pods_is_published() -> None:
    _, bus, _ = started([*STORAGE, pod(10, "a", "data")], revision=20)
    found = published(bus)
    assert found.keys() == {"volumeclaim.ml.data", "volume.pv-data", "storageclass.fast", "volumelimits.n1"}
    assert found["volumeclaim.ml.data"].volume == "pv-data"
    assert found["volumelimits.n1"].drivers == (("csi.example.com", 3),)


def test_claims_of_pods_of_other_schedulers_are_published_with_them() -> None:
    pods = [pod(10, "a", "data"), pod(11, "b", "other", scheduler="other", node="n1")]
    _, bus, _ = started([*STORAGE, *pods], revision=20)
    assert {"volumeclaim.ml.data", "volumeclaim.ml.other", "volume.pv-other"} <= published(bus).keys()


def test_objects_follow_the_pods_and_their_own_changes() -> None:
    driver, bus, _ = started([*STORAGE], revision=20)
    work_off(driver, bus, pod(21, "a", "late"))
    assert published(bus).keys() == {"storageclass.fast", "volumelimits.n1"}
    work_off(driver, bus, claim(22, "late"), volume(23, "pv-late"))
    assert {"volumeclaim.ml.late", "volume.pv-late"} <= published(bus).keys()
    work_off(driver, bus, volume(24, "pv-late", deleted=True))
    assert "volume.pv-late" not in published(bus)
    work_off(driver, bus, volume(25, "pv-late"), pod(26, "b", "data"), pod(27, "a", "late", deleted=True))
    assert published(bus).keys() == {"volumeclaim.ml.data", "volume.pv-data", "storageclass.fast", "volumelimits.n1"}


def test_a_claim_of_a_pod_that_has_ended_is_not_published() -> None:
    driver, bus, _ = started([*STORAGE, pod(10, "a", "data", node="n1")], revision=20)
    assert "volumeclaim.ml.data" in published(bus)
    work_off(driver, bus, pod(21, "a", "data", node="n1", status={"phase": "Succeeded"}))
    assert "volumeclaim.ml.data" not in published(bus)


def test_a_new_list_deletes_what_is_not_in_it() -> None:
    driver, bus, _ = started([*STORAGE, pod(10, "a", "data")], revision=20)
    driver.begin_list()
    kept = [each for each in STORAGE if each.kind != "PersistentVolume"]
    work_off(driver, bus, *kept, pod(10, "a", "data"), Listed(30))
    assert published(bus).keys() == {"volumeclaim.ml.data", "storageclass.fast", "volumelimits.n1"}
    driver.begin_list()
    work_off(driver, bus, *STORAGE, Listed(40))
    assert published(bus) == {}


def test_the_kinds_of_storage_are_compared_only_where_they_concern_pods() -> None:
    for pods, expected in (([], False), ([pod(10, "a", "data")], True)):
        driver, bus, _ = started([*STORAGE, *pods], revision=20)
        work_off(driver, bus)
        assert driver.core._comparison.storage is expected
    assert len(STORAGE_KINDS) == 4


def test_an_invalid_object_is_a_problem_of_it() -> None:
    spec = {"capacity": {"storage": "much"}}
    driver, bus, _ = started([claim(1), pod(2, "a", "data"), volume(3, spec=spec)], revision=20)
    work_off(driver, bus)
    assert published(bus)["volume.pv-data"].problems


def messages_of(bus, *subjects: str) -> list[int]:
    """Return the sequences of facts on CLUSTER."""
    return [bus.messages[f"cluster.{subject}"][0] for subject in subjects]


STORAGE_OF_DATA = ("volumelimits.n1", "storageclass.fast", "volume.pv-data", "volumeclaim.ml.data")


def test_a_pod_is_published_after_its_claims_and_what_they_name() -> None:
    driver, bus, _ = started([*STORAGE, pod(10, "b", "other", scheduler="other", node="n1")], revision=20)
    work_off(driver, bus, pod(21, "a", "data"))
    found = messages_of(bus, *STORAGE_OF_DATA, "pod.uid-a")
    assert found == sorted(found)
    assert messages_of(bus, "volumeclaim.ml.other") < messages_of(bus, "pod.uid-a"), "volumes of other pods count"


def test_the_pods_of_a_list_are_published_after_their_claims() -> None:
    pods = [pod(10, "a", "data"), pod(11, "b", "other", scheduler="other", node="n1")]
    driver, bus, _ = started([*pods, *STORAGE], revision=20)
    found = messages_of(bus, *STORAGE_OF_DATA, "pod.uid-a")
    assert found == sorted(found)
    driver.begin_list()
    work_off(driver, bus, pod(30, "c", "late"))
    assert "cluster.pod.uid-c" not in bus.messages
    work_off(driver, bus, claim(31, "late"), volume(32, "pv-late"), *STORAGE, *pods, Listed(40))
    found = messages_of(bus, "volume.pv-late", "volumeclaim.ml.late", "pod.uid-c")
    assert found == sorted(found)


def test_a_pod_that_ends_during_a_list_is_not_published() -> None:
    driver, bus, _ = started([*STORAGE], revision=20)
    driver.begin_list()
    driver.deliver([*STORAGE, pod(30, "a", "data"), pod(30, "b", "other")])
    driver.deliver([pod(31, "a", "data", status={"phase": "Failed"}), pod(32, "b", "other", deleted=True), Listed(40)])
    work_off(driver, bus)
    assert not {"cluster.pod.uid-a", "cluster.pod.uid-b"} & bus.messages.keys()
    assert "volumeclaim.ml.data" not in published(bus)


def waiting_claim(revision: int, name: str, **spec) -> Change:
    spec = {"storageClassName": "local", **spec}
    return change("PersistentVolumeClaim", name, revision, namespace="ml", spec=spec)


def disk(revision: int, name: str, phase: str = "Available", claimed: str = "", **more) -> Change:
    spec = {"storageClassName": "local"}
    if claimed:
        spec["claimRef"] = {"namespace": "ml", "name": claimed}
    return change("PersistentVolume", name, revision, spec=spec, status={"phase": phase}, **more)


def local_class(revision: int, mode: str = "WaitForFirstConsumer") -> Change:
    return change("StorageClass", "local", revision, provisioner="kubernetes.io/no-provisioner", volumeBindingMode=mode)


def volumes(bus) -> set[str]:
    return {subject.removeprefix("volume.") for subject in published(bus) if subject.startswith("volume.")}


def test_volumes_that_can_be_bound_are_published_while_a_claim_of_a_pod_waits() -> None:
    disks = [
        disk(1, "free"),
        disk(2, "used", "Bound", "other"),
        disk(3, "mine", claimed="late"),
        disk(4, "old", "Released"),
    ]
    driver, bus, _ = started(
        [*disks, local_class(5), waiting_claim(6, "data"), waiting_claim(7, "unused")], revision=20
    )
    assert volumes(bus) == set()
    work_off(driver, bus, pod(21, "a", "data"))
    assert volumes(bus) == {"free"}
    work_off(driver, bus, waiting_claim(22, "late"), pod(23, "b", "late"), disk(24, "more"))
    assert volumes(bus) == {"free", "mine", "more"}
    work_off(driver, bus, local_class(25, "Immediate"))
    assert volumes(bus) == set()
    work_off(driver, bus, local_class(26))
    assert volumes(bus) == {"free", "mine", "more"}
    work_off(driver, bus, waiting_claim(27, "data", volumeName="free"), disk(28, "free", "Bound", "data"))
    assert volumes(bus) == {"free", "mine", "more"}
    work_off(driver, bus, pod(29, "b", "late", deleted=True))
    assert volumes(bus) == {"free"}, "that of a bound claim"


def test_the_order_of_objects_does_not_matter() -> None:
    objects = [local_class(1), disk(2, "free"), waiting_claim(3, "data"), pod(4, "a", "data")]
    for order in permutations(objects):
        driver, bus, _ = started([], revision=20)
        for number, each in enumerate(order):
            work_off(driver, bus, each._replace(revision=21 + number))
        assert volumes(bus) == {"free"}


def test_a_claim_that_changes_while_it_waits_changes_no_volumes() -> None:
    storage = Storage(frozenset({"volcano"}))
    waiting = VolumeClaimFact(key="ml/data", storage_class="local")
    storage.use(
        PodFact(
            uid="a", namespace="ml", name="a", scheduler="volcano", ask=PodRequest(volumes=(PodVolume("v", "data"),))
        )
    )
    storage.put("cluster.storageclass.local", StorageClassFact(name="local", waits=True))
    for name in ("one", "two"):
        storage.put(f"cluster.volume.{name}", VolumeFact(name=name, storage_class="local", available=True))
    storage.put("cluster.volumeclaim.ml.data", waiting)
    everything = {subject for subject, fact in storage.take(1) if fact is not None}
    volumes = {"cluster.volume.one", "cluster.volume.two"}
    assert volumes < everything
    storage.put("cluster.volumeclaim.ml.data", replace(waiting, selected_node="n1"))
    assert [subject for subject, _ in storage.take(2)] == ["cluster.volumeclaim.ml.data"]
    storage.put("cluster.volumeclaim.ml.data", replace(waiting, storage_class="other"))
    assert {subject for subject, fact in storage.take(3) if fact is None} == volumes
    storage.put("cluster.volumeclaim.ml.data", waiting)
    assert volumes < {subject for subject, fact in storage.take(4) if fact is not None}
    storage.put("cluster.volumeclaim.ml.data", None)
    assert volumes < {subject for subject, fact in storage.take(5) if fact is None}
