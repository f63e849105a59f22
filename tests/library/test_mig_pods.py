"""MIG: init containers, pods whose instances do not go together, pods that are kept apart, annotations."""

import json

import pytest
from deviceshare.conf import BUILT_IN
from deviceshare.families import BY_NAME, caveats
from deviceshare.families.vgpu.section import MigGroup, MigInstance, MigModel, VgpuConf
from deviceshare.model import ContainerGrant, DeviceGrant, Tenant
from deviceshare.objects import decode_pod
from support.builders import NUMBER, ask, card, codes, container, node, take, vgpu
from support.mig import DOCS, apart, hold, instances, lines, mig_card, mig_cluster, one_node, read, written

MEMORY = "volcano.sh/vgpu-memory"


# Init containers


def init_ask(main: int, *inits: int, sidecar: int = 0):
    before = [container(f"i{at}", **{MEMORY: memory}) for at, memory in enumerate(inits)]
    if sidecar:
        before.append(container("s", sidecar=True, **{MEMORY: sidecar}))
    return ask(container("c0", **{MEMORY: main}), init_containers=tuple(before))


@pytest.mark.parametrize(
    ("what", "expected", "used"),
    [
        (init_ask(9000, 3000), ["0:group2-0", "0:group2-0"], (10240, 0, 1)),
        (init_ask(3000, 9000), ["0:group2-3", "0:group2-0"], (15360, 0, 2)),
        (init_ask(3000, 9000, 8000), ["0:group2-3", "0:group2-0", "0:group2-0"], (15360, 0, 2)),
        (init_ask(9000, sidecar=9000), ["0:group2-0", "0:group2-1"], (20480, 0, 2)),
        (init_ask(3000, 3000, sidecar=9000), ["0:group2-3", "0:group2-0", "0:group2-3"], (15360, 0, 2)),
    ],
    ids=["reuses", "larger", "one after the other", "sidecar beside", "all"],
)
def test_an_init_container_uses_the_pods_own_instances_where_they_are_large_enough(what, expected, used) -> None:
    cluster = one_node()
    assert instances(take(cluster, what, "p")) == expected
    assert cluster.used_cards("n1") == [used]


def test_an_instance_that_is_used_again_needs_no_slot_more() -> None:
    cluster = mig_cluster(node("n1", [mig_card(0, slots=1)]))
    assert instances(cluster.place(init_ask(9000, 3000))) == ["0:group2-0", "0:group2-0"]
    assert codes(cluster, init_ask(3000, 9000)) == {"CardTimeSlicingExhausted"}


def test_an_init_container_does_not_share_an_instance_with_a_sidecar_that_runs_already() -> None:
    sidecar, init = container("s", sidecar=True, **{MEMORY: 9000}), container("i", **{MEMORY: 9000})
    assert instances(one_node().place(ask(init_containers=(init, sidecar)))) == ["0:group2-0", "0:group2-0"]
    assert instances(one_node().place(ask(init_containers=(sidecar, init)))) == ["0:group2-0", "0:group2-1"]


def test_an_init_containers_cores_do_not_add_up_with_the_others() -> None:
    cores = "volcano.sh/vgpu-cores"
    what = ask(
        container("c0", **{MEMORY: 3000, cores: 60}), init_containers=(container("i", **{MEMORY: 3000, cores: 70}),)
    )
    cluster = one_node()
    take(cluster, what, "p")
    assert cluster.used_cards("n1") == [(5120, 70, 1)]
    assert codes(cluster, vgpu(1, 3000, 31)) == {"CardInsufficientCore"}


def test_init_containers_stand_in_an_annotation_of_our_own() -> None:
    what = init_ask(3000, 9000, sidecar=2000)
    cluster = one_node()
    placement = take(cluster, what, "p")
    annotations = written(placement)
    assert annotations["volcano.sh/vgpu-ids-new"] == "GPU-0[group2-3],NVIDIA,3000,0:"
    assert (
        annotations["deviceshare.io/vgpu-init-ids"] == "GPU-0[group2-0],NVIDIA,9000,0:;GPU-0[group2-0],NVIDIA,2000,0:"
    )
    again = one_node()
    again.hold("n1", "p", read(annotations, what), ())
    assert again.used_cards("n1") == cluster.used_cards("n1") == [(15360, 0, 2)]
    assert [grant.stage for grant in read(annotations, what)] == ["", "init", "sidecar"]
    assert caveats(placement.grants) == (
        "vGPUs in init containers (s, i0): the vGPU device plugin serves spec.containers only",
    )


# What does not go together


@pytest.mark.parametrize(
    ("held", "used"),
    [
        ([("a", "group9-0")], 1000),
        ([("a", "group1-7")], 1000),
        ([("a", "group1")], 1000),
        ([("a", "[]")], 1000),
        ([("a", "group1-0"), ("b", "group2-0")], 5120 + 10240),
        ([("a", "")], 1000),
    ],
    ids=["unknown group", "position outside", "no position", "empty", "two geometries", "no instance"],
)
def test_a_card_with_inconsistent_instances_is_not_allocated(held, used) -> None:
    cluster = one_node()
    for uid, detail in held:
        hold(cluster, uid, detail)
    assert cluster.used_cards("n1") == [(used, 0, len(held))]
    assert lines(cluster, vgpu(1, 1)) == {
        "CardMigInstancesConflict": "1 node(s) had MIG cards whose pods hold instances that do not go together"
    }
    for uid, _ in held:
        cluster.release("n1", uid)
    assert instances(cluster.place(vgpu(1, 1))) == ["0:group1-0"]


def test_two_pods_on_one_instance_are_both_charged_and_the_others_are_still_given() -> None:
    cluster = one_node()
    hold(cluster, "a", "group1-0")
    hold(cluster, "b", "group1-0")
    assert cluster.used_cards("n1") == [(10240, 0, 2)]
    assert instances(cluster.place(vgpu(1, 1))) == ["0:group1-1"]
    cluster.release("n1", "a")
    assert instances(cluster.place(vgpu(1, 1))) == ["0:group1-1"], "the other one has it still"


def test_a_pod_that_names_an_instance_twice_is_charged_once() -> None:
    cluster = one_node()
    hold(cluster, "a", "group1-0", "group1-0")
    assert cluster.used_cards("n1") == [(5120, 0, 1)]


def test_a_geometry_that_changes_under_running_pods_stops_the_card() -> None:
    cluster = one_node(devices=DOCS)
    take(cluster, vgpu(1, 3000), "p")
    before = cluster.conf
    other = BUILT_IN.having(VgpuConf(geometries=(MigModel(("A100",), (MigGroup("g", (MigInstance("i", 9, 2),)),)),)))
    cluster.set_configuration(one_node(devices=other).conf)
    assert codes(cluster, vgpu(1, 1)) == {"CardMigInstancesConflict"}
    cluster.set_configuration(before)
    assert instances(cluster.place(vgpu(1, 1))) == ["0:group1-1"]


def test_a_pod_of_volcano_on_a_card_without_geometry_is_charged_what_it_requested() -> None:
    # Volcano takes such a node for hami-core.
    unknown = card(0, model="NVIDIA-H200", memory=90000, mode="mig")
    cluster = mig_cluster(node("n1", [unknown]))
    what = vgpu(1, 3000)
    cluster.hold("n1", "a", read({"volcano.sh/vgpu-ids-new": "GPU-0,NVIDIA,3000,20:"}, what), ())
    assert cluster.used_cards("n1") == [(3000, 20, 1)]


# Being kept apart


def test_pods_of_a_group_are_kept_apart_card_by_card() -> None:
    cluster = one_node(count=2)
    mate = take(cluster, vgpu(1, 3000), "mate")
    cluster.hold("n1", "mate", mate.grants, (), Tenant("ns/gang"))
    assert instances(cluster.place(apart(vgpu(1, 3000), "ns/gang"))) == ["0:group1-0"]
    assert instances(cluster.place(apart(vgpu(1, 3000), "ns/other"))) == ["1:group1-1"]
    cluster.hold("n1", "mate2", cluster.place(apart(vgpu(1, 3000), "ns/gang")).grants, (), Tenant("ns/gang"))
    assert lines(cluster, apart(vgpu(1, 3000), "ns/gang")) == {
        "CardPodGroupConflict": "1 node(s) had cards with a pod of the same PodGroup "
        "(volcano.sh/vgpu-podgroup-policy spread)"
    }


def test_rules_of_exclusion_do_not_count_since_instances_are_apart_anyway() -> None:
    rule = (("workloadType", "training"),)
    cluster = one_node()
    first = take(cluster, vgpu(1, 3000), "first")
    cluster.hold("n1", "first", first.grants, (), Tenant("", rule))
    assert instances(cluster.place(apart(vgpu(1, 3000), rules=(rule,)))) == ["0:group1-1"]


# Annotations


def test_the_annotation_names_the_request_and_the_instance() -> None:
    annotations = written(one_node().place(vgpu(1, 3000, 20)))
    assert annotations["volcano.sh/vgpu-ids-new"] == "GPU-0[group1-0],NVIDIA,3000,20:"
    assert "deviceshare.io/vgpu-init-ids" not in annotations


def test_instances_and_other_devices_are_read_by_their_families() -> None:
    what = ask(container("a", **{NUMBER: 1}), container("b", **{NUMBER: 1}))
    text = "GPU-0[group1-0],NVIDIA,3000,20:;GPU-1,NVIDIA,500,0:"
    by_family = {grant.family: grant for grant in read({"volcano.sh/vgpu-ids-new": text}, what)}
    assert by_family["mig"] == ContainerGrant("a", 0, "mig", (DeviceGrant("GPU-0", -1, 3000, 20, "group1-0"),))
    assert by_family["hami-core"] == ContainerGrant("b", 1, "hami-core", (DeviceGrant("GPU-1", -1, 500, 0),))


def test_the_device_plugin_sets_the_environment() -> None:
    (grant,) = one_node().place(vgpu(1, 3000)).grants
    assert BY_NAME["mig"].environment(grant, ()) == {}


def test_an_instance_that_cannot_be_understood_is_a_problem_of_the_pod_and_its_card_is_held() -> None:
    view = {
        "metadata": {
            "name": "a",
            "uid": "u",
            "annotations": {"volcano.sh/vgpu-ids-new": "GPU-0[group1],NVIDIA,3000,20:GPU-1[group1-0],NVIDIA,1,0:"},
        },
        "spec": {"nodeName": "n1", "containers": [{"name": "c0", "resources": {"limits": {MEMORY: 3000}}}]},
    }
    pod = decode_pod(json.dumps(view).encode())
    (problem,) = pod.problems
    assert str(problem) == (
        "Pod default/a: metadata.annotations[volcano.sh/vgpu-ids-new]: 'GPU-0[group1]' is not valid: "
        "expected UUID[group-position] for a MIG instance"
    )
    cluster = one_node(count=2)
    cluster.hold("n1", "a", pod.held, ())
    assert cluster.used_cards("n1") == [(3000, 20, 1), (5120, 0, 1)]
    assert instances(cluster.place(vgpu(1, 1))) == ["1:group1-1"]
