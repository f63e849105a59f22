"""What the annotations of a bound pod are worth: ours by their signature, others at most what the pod requests."""

import json

import pytest
from deviceshare.families import BY_NAME, Demands, clamp_to_request, kind_of
from deviceshare.families.hami_vnpu import wire as hami_vnpu_wire
from deviceshare.families.hami_vnpu.section import VnpuConf
from deviceshare.families.mindcluster import wire as mindcluster_wire
from deviceshare.families.vgpu import wire as vgpu_wire
from deviceshare.families.volcano_gpu import wire as gpu_share_wire
from deviceshare.model import Card, Claim, ContainerGrant, DeviceGrant, FormatError, read_keys, sign
from deviceshare.model.signatures import SIGNATURE
from deviceshare.objects import decode_pod, held_by_any_reading
from deviceshare.objects.held import MAX_ALONE
from support.builders import (
    CORES,
    MEMORY,
    NUMBER,
    PERCENTAGE,
    SHARE,
    WHOLE_CARDS,
    ask,
    card,
    cluster,
    conf,
    container,
    node,
    take,
)
from support.builders import vgpu as asks_vgpu

CARDS = {each.id: each for each in (card(at, memory=32000) for at in range(4))}
KEY, OLD, FOREIGN = b"a key of ours 123", b"one from before 45", b"a foreign key 6789"


def devices(held):
    return [(device.id, device.memory, device.cores) for grant in held for device in grant.devices]


def counts(what, annotations, cards=CARDS, settings=None):
    """What of a bound pod's annotations counts, and what is said of the rest."""
    containers = [{"name": each.name, "resources": {"limits": dict(each.resources)}} for each in what.containers]
    inits = [{"name": each.name, "resources": {"limits": dict(each.resources)}} for each in what.init_containers]
    metadata = {"name": "p", "namespace": "ns", "uid": "u", "annotations": {**dict(what.annotations), **annotations}}
    metadata["labels"] = dict(what.labels)
    spec = {"nodeName": "n1", "containers": containers, "initContainers": inits}
    fact = decode_pod(json.dumps({"metadata": metadata, "spec": spec}).encode())
    return clamp_to_request(fact.held, fact.ask, Demands(settings or conf()), cards, "Pod ns/p")


def ids(*slots):
    text = ";".join("".join(f"{card},NVIDIA,{memory},{cores}:" for card, memory, cores in slot) for slot in slots)
    return {vgpu_wire.IDS: text}


def test_what_is_requested_counts_whole_and_nothing_is_said():
    held, problems = counts(asks_vgpu(2, 3000, 30), ids([("GPU-0", 3000, 30), ("GPU-1", 3000, 30)]))
    assert (devices(held), problems) == ([("GPU-0", 3000, 30), ("GPU-1", 3000, 30)], ())


def test_a_card_more_than_requested_does_not_count():
    held, (problem,) = counts(asks_vgpu(1, 3000), ids([("GPU-0", 3000, 0), ("GPU-1", 3000, 0)]))
    assert devices(held) == [("GPU-0", 3000, 0)]
    assert problem.value == "GPU-1 3000 0"
    assert "no more than the pod requests: c0: 1 devices with 3000 of memory and 0 cores" in str(problem)


def test_more_memory_and_cores_than_requested_do_not_count():
    held, (problem,) = counts(asks_vgpu(1, 3000, 20), ids([("GPU-0", 32000, 100)]))
    assert devices(held) == [("GPU-0", 3000, 20)]
    assert problem.value == "GPU-0 32000 100"


@pytest.mark.parametrize("annotations", [
    ids([("GPU-0", 32000, 100)]),
    {gpu_share_wire.INDEX: "0,1,2,3"},
    {vgpu_wire.INIT_IDS: "GPU-0,NVIDIA,1,1:"},
    {hami_vnpu_wire.allocated("Ascend310P"): "A,Ascend310P,8000,0:;"},
    {mindcluster_wire.CORES: "0,1,2"},
])  # fmt: skip
def test_a_pod_that_requests_no_device_holds_none_whatever_it_names(annotations):
    assert devices(counts(ask(container(cpu=1000)), annotations)[0]) == []


def test_a_percentage_is_of_the_card_and_all_of_a_card_no_more_than_it_has():
    assert devices(counts(asks_vgpu(1, percentage=50), ids([("GPU-0", 32000, 0)]))[0]) == [("GPU-0", 16000, 0)]
    assert devices(counts(asks_vgpu(1), ids([("GPU-0", 99000, 0)]))[0]) == [("GPU-0", 32000, 0)]
    assert devices(counts(asks_vgpu(1), ids([("GPU-9", 99000, 0)]))[0]) == [("GPU-9", 99000, 0)]


def test_a_slot_without_its_container_counts_for_one_that_requests():
    """Volcano leaves out the slots of containers that ask nothing."""
    renamed = {"volcano.sh/vgpu-cores": 10}  # no resource name identifies a slot
    what = ask(container("idle"), container("busy", **renamed))
    held, problems = counts(what, ids([("GPU-0", 32000, 10)]))
    assert (devices(held), problems) == ([("GPU-0", 32000, 10)], ())


def test_invalid_requests_count_by_their_number():
    """Another scheduler bound it: the pod has devices, though we would not have given it any."""
    what = asks_vgpu(1, 3000, annotations={vgpu_wire.MODE: "unheard-of"})
    assert devices(counts(what, ids([("GPU-0", 3000, 0), ("GPU-1", 3000, 0)]))[0]) == [("GPU-0", 3000, 0)]


def test_gpu_share_has_the_one_card_and_its_own_amount():
    cards = {str(at): Card(str(at), at, 1, 8000, 100, mode="gpu-share") for at in range(4)}
    held, _ = counts(ask(container(**{SHARE: 1000})), {gpu_share_wire.INDEX: "0,1,2,3"}, cards)
    assert devices(held) == [("0", 1000, 0)]
    held, _ = counts(ask(container(**{WHOLE_CARDS: 2})), {gpu_share_wire.INDEX: "0,1,2,3"}, cards)
    assert [device.id for grant in held for device in grant.devices] == ["0", "1"]


def test_what_we_write_counts_whole_again():
    """Of every vGPU request: nothing is cut from what the allocator itself gave."""
    allocator = cluster(node("n1", [*CARDS.values()]))
    requests = [asks_vgpu(2, 3000, 30), asks_vgpu(1, percentage=25), asks_vgpu(3), asks_vgpu(1, 500, containers=2)]
    for number, what in enumerate(requests):
        placement = take(cluster(node("n1", [*CARDS.values()])), what, str(number))
        claim = Claim(id="c", uid="u", namespace="ns", name="p", grants=placement.grants)
        names = [each.name for each in what.containers]
        written = BY_NAME["hami-core"].annotations(claim, "n1", names, 1.0)
        held, problems = counts(what, written)
        assert problems == ()
        assert devices(held) == devices(placement.grants)
    assert allocator.nodes == 1


def bound(annotations, *, uid="u", on="n1", what=None):
    limits = what or {NUMBER: 1, MEMORY: 3000, CORES: 0}
    metadata = {"name": "p", "namespace": "ns", "uid": uid, "annotations": annotations}
    spec = {"nodeName": on, "containers": [{"name": "c", "resources": {"limits": limits}}]}
    return json.dumps({"metadata": metadata, "spec": spec}).encode()


WRITTEN = {
    **ids([("GPU-0", 3000, 0)]),
    vgpu_wire.TO_ALLOCATE: "GPU-0,NVIDIA,3000,0:",
    vgpu_wire.TIME: "1",
    vgpu_wire.BIND_PHASE: "allocating",
}


def signed_by(key, uid="u", on="n1", written=None):
    written = written or WRITTEN
    return {**written, **sign([key], uid, on, written)}


def test_our_signature_holds_whatever_the_device_plugin_does():
    annotations = signed_by(KEY)
    assert decode_pod(bound(annotations), [KEY]).signed
    served = annotations | {
        vgpu_wire.TO_ALLOCATE: "",
        vgpu_wire.TIME: str(2**64 - 1),
        vgpu_wire.BIND_PHASE: "success",
        "note": "x",
    }
    fact = decode_pod(bound(served), [KEY])
    assert fact.signed
    assert devices(fact.held) == [("GPU-0", 3000, 0)]


def test_keys_are_changed_one_after_the_other():
    assert decode_pod(bound(signed_by(OLD)), [KEY, OLD]).signed
    assert not decode_pod(bound(signed_by(OLD)), [KEY]).signed
    assert read_keys("new\n\n old \n") == (b"new", b"old")


@pytest.mark.parametrize("forged", [
    bound(signed_by(FOREIGN)),
    bound(signed_by(KEY, uid="another pod's")),
    bound(signed_by(KEY, on="n2")),
    bound(signed_by(KEY) | ids([("GPU-1", 3000, 0)])),
    bound({SIGNATURE: ":"} | WRITTEN),
    bound({SIGNATURE: "\u00fc:"} | WRITTEN),
    bound({SIGNATURE: signed_by(KEY)[SIGNATURE]}),
])  # fmt: skip
def test_a_signature_of_something_else_is_none(forged):
    assert not decode_pod(forged, [KEY]).signed


def test_what_a_signature_does_not_cover_does_not_count_beside_it():
    annotations = signed_by(KEY) | {vgpu_wire.INIT_IDS: "GPU-2,NVIDIA,3000,0:", gpu_share_wire.INDEX: "3"}
    fact = decode_pod(bound(annotations), [KEY])
    assert (fact.signed, devices(fact.held)) == (True, [("GPU-0", 3000, 0)])


def test_without_a_key_nothing_is_signed():
    assert sign([], "u", "n1", WRITTEN) == {}
    assert sign([KEY], "u", "n1", {}) == {}


def test_a_template_is_the_one_that_is_requested():
    settings = conf()
    chip = settings.devices.section(VnpuConf).chips[0]
    small, large = chip.templates[0], chip.templates[-1]
    what = ask(container(**{chip.resource: 1, chip.memory_resource: small.memory}))
    annotations = {
        hami_vnpu_wire.allocated(chip.word): f"A,{chip.word},{large.memory},0:;",
        hami_vnpu_wire.runtime(chip.word): json.dumps([{"UUID": "A", "temp": large.name}]),
    }
    held, (problem,) = counts(what, annotations)
    ((device,),) = [grant.devices for grant in held]
    assert (device.memory, device.detail) == (small.memory, f"{chip.word}/{small.name}")
    assert problem.value.startswith("A ")
    assert PERCENTAGE not in str(problem)


def test_without_the_keys_the_devices_of_any_reading_may_be_held():
    signed = sign([KEY], "u", "n1", ids([("GPU-0", 3000, 0)]))
    annotations = ids([("GPU-0", 3000, 0)]) | signed
    bad = {vgpu_wire.INIT_IDS: "GPU-9,NVIDIA,garbage:", gpu_share_wire.INDEX: "3"}
    grants, problems = held_by_any_reading(annotations | bad, ask(container(**{SHARE: 1})), "ns/p")
    assert {device.id for grant in grants for device in grant.devices} == {"GPU-0", "3"}
    assert [problem.field for problem in problems] == [f"metadata.annotations[{vgpu_wire.INIT_IDS}]"]
    beyond = ids([("GPU-1", 1, 0)] * 1100 + [("GPU-0", 3000, 0)])
    grants, _ = held_by_any_reading(beyond, asks_vgpu(1, 3000, 0), "ns/p")
    assert {device.id for grant in grants for device in grant.devices} == {"GPU-0", "GPU-1"}


def test_of_many_annotations_only_few_are_read_alone(monkeypatch):
    """Their owner writes up to 256 KiB of them, and the pods of a node are many."""
    read = []

    class Counting:
        held_annotations = frozenset({"counted/*"})

        def held(self, annotations, request, ref):
            read.append(len(annotations))
            raise FormatError(f"Pod {ref}", min(annotations), "", "nothing")

    monkeypatch.setattr("deviceshare.objects.held.FAMILIES", [Counting()])
    many = {f"counted/{at:04}": "" for at in range(1000)} | {f"other/{at}": "" for at in range(1000)}
    _, problems = held_by_any_reading(many, ask(), "ns/p")
    assert read == [2000, *[1] * MAX_ALONE]
    fields = [problem.field for problem in problems]
    assert fields == [*(f"counted/{at:04}" for at in range(MAX_ALONE)), "metadata.annotations"]
    assert problems[-1].value == "1000 annotations of device families"


def test_without_the_keys_what_the_signature_covers_is_read_together(monkeypatch):
    class OfTwo:
        """A family of another package whose devices are in two annotations."""

        held_annotations = frozenset({"two/id", "two/memory", "two/more"})

        def held(self, annotations, request, ref):
            if "two/more" in annotations:
                raise FormatError(f"Pod {ref}", "two/more", "", "nothing")
            if not {"two/id", "two/memory"} <= annotations.keys():
                return ()
            device = DeviceGrant(annotations["two/id"], 0, int(annotations["two/memory"]), 0)
            return (ContainerGrant("main", 0, "two", (device,)),)

    monkeypatch.setattr("deviceshare.objects.held.FAMILIES", [OfTwo()])
    bound = {"two/id": "T-0", "two/memory": "5"}
    covered = bound | {SIGNATURE: "0:two/id,two/memory", "two/more": "hides"}
    grants, problems = held_by_any_reading(covered, asks_vgpu(1, 5, 0), "ns/p")
    assert (devices(grants), [problem.field for problem in problems]) == ([("T-0", 5, 0)], ["two/more"])


@pytest.mark.parametrize(
    ("asks", "kinds"),
    [
        (asks_vgpu(1, 3000, 0), {kind_of("mig")}),
        (ask(container(**{SHARE: 1000})), {kind_of("gpu-share")}),
        (ask(container(**{SHARE: 1000}), container("b", **{NUMBER: 1})), {kind_of("gpu-share"), kind_of("mps")}),
        (ask(container(cpu=1000)), set()),
        (ask(container(**{"example.com/share": 1})), set()),
    ],
)
def test_a_pod_requests_devices_of_the_kinds_of_its_resources(asks, kinds):
    assert Demands(conf()).kinds(asks) == kinds
