"""MIG: which instance a pod gets, how an unused card is cut, and why nothing is given."""

import json

import pytest
from deviceshare.claims import ContainerGrant, DeviceGrant, Tenant
from deviceshare.conf.device_model import DevicesConf, MigGroup, MigInstance, MigModel, VgpuConf
from deviceshare.conf.model import BEST_FIT, FIRST_FIT
from deviceshare.families import BY_NAME, caveats
from deviceshare.objects.pod import decode_pod
from support.builders import NUMBER, ask, card, codes, container, node, take, vgpu
from support.mig import (
    A30,
    A100_40,
    A100_80,
    DOCS,
    IN_GIB,
    PLUGIN,
    apart,
    instances,
    mig_card,
    mig_cluster,
    read,
    written,
)

MODE, MEMORY = "volcano.sh/vgpu-mode", "volcano.sh/vgpu-memory"
BOTH = pytest.mark.parametrize("geometry", [BEST_FIT, FIRST_FIT])


def one(model: str = A100_40, count: int = 1, **what):
    return mig_cluster(node("n1", [mig_card(at, model) for at in range(count)]), **what)


def hold(cluster, uid: str, *details: str, memory: int = 1000, card: int = 0, stage: str = "") -> None:
    """Let a pod stand there as the annotations of a bound pod say it: an instance for each container."""
    grants = tuple(
        ContainerGrant(f"c{at}", at, "mig", (DeviceGrant(f"GPU-{card}", -1, memory, 0, detail),), stage)
        for at, detail in enumerate(details)
    )
    cluster.hold("n1", uid, grants, ())


def lines(cluster, what) -> dict[str, str]:
    assert cluster.place(what) is None
    return {refusal.code: refusal.line for refusal in cluster.why_not(what).refusals}


# Which instance


@BOTH
@pytest.mark.parametrize(
    ("memory", "expected"),
    [(1, "group1-0"), (5120, "group1-0"), (5121, "group2-0"), (10241, "group3-0"), (20481, "group4-0")],
)
def test_an_unused_card_is_cut_for_the_smallest_instance_that_holds_the_request(memory, expected, geometry) -> None:
    (grant,) = one(geometry=geometry).place(vgpu(1, memory)).grants
    assert grant.family == "mig"
    assert grant.devices[0].detail == expected
    assert grant.devices[0].asked == memory


@BOTH
def test_an_instance_is_never_given_twice_and_its_memory_is_charged(geometry) -> None:
    cluster = one(geometry=geometry)
    placed = [instances(take(cluster, vgpu(1, 3000), f"p{at}")) for at in range(7)]
    assert placed == [[f"0:group1-{at}"] for at in range(7)]
    assert cluster.used_cards("n1") == [(7 * 5120, 0, 7)]
    assert lines(cluster, vgpu(1, 3000)) == {
        "CardMigTopologyInfeasible": "1 Insufficient volcano.sh/vgpu-memory on a free MIG instance of a card "
        "(asked 3000 MiB, at most 0 MiB free, 3000 MiB missing)"
    }


@BOTH
def test_the_containers_of_a_pod_get_instances_of_their_own(geometry) -> None:
    cluster = one(geometry=geometry)
    assert instances(take(cluster, vgpu(1, 9000, containers=3), "p")) == ["0:group2-0", "0:group2-1", "0:group2-2"]
    assert cluster.used_cards("n1") == [(3 * 10240, 0, 3)]
    assert one(geometry=geometry).place(vgpu(1, 9000, containers=4)) is None


@BOTH
def test_all_kinds_of_instance_of_a_geometry_in_use_are_given(geometry) -> None:
    cluster = one(geometry=geometry)
    take(cluster, vgpu(1, 9000), "large")
    assert instances(take(cluster, vgpu(1, 3000), "small")) == ["0:group2-3"], "the 1g.5gb, in which nobody is yet"


@BOTH
def test_an_empty_card_takes_any_geometry_again(geometry) -> None:
    cluster = one(geometry=geometry)
    take(cluster, vgpu(1, 3000), "p")
    assert cluster.place(vgpu(1, 30000)) is None
    cluster.release("n1", "p")
    assert cluster.used_cards("n1") == [(0, 0, 0)]
    assert instances(cluster.place(vgpu(1, 30000))) == ["0:group4-0"]


def test_several_instances_of_one_container_are_on_distinct_cards() -> None:
    cluster = one(count=3)
    assert instances(cluster.place(vgpu(2, 3000))) == ["2:group1-0", "1:group1-0"]
    assert cluster.place(vgpu(4, 3000)) is None


def test_cores_and_slots_count_as_on_other_cards() -> None:
    cluster = mig_cluster(node("n1", [mig_card(0, slots=2)]))
    take(cluster, vgpu(1, 3000, 60), "a")
    assert codes(cluster, vgpu(1, 3000, 41)) == {"CardInsufficientCore"}
    assert codes(cluster, vgpu(1, 3000, 100)) == {"CardInsufficientCore", "ExclusiveDeviceAllocateConflict"}
    take(cluster, vgpu(1, 3000, 40), "b")
    assert codes(cluster, vgpu(1, 3000)) == {"CardTimeSlicingExhausted", "CardComputeUnitsExhausted"}


def test_memory_in_units_of_the_factor() -> None:
    cluster = mig_cluster(node("n1", [mig_card(0, memory=40)]), devices=IN_GIB)
    placement = take(cluster, vgpu(1, 3), "p")
    assert (placement.grants[0].devices[0].memory, placement.grants[0].devices[0].detail) == (5, "group1-0")
    assert "GPU-0[group1-0],NVIDIA,3,0:" in written(placement).values()
    assert lines(cluster, vgpu(1, 6))["CardMigTopologyInfeasible"].endswith(
        "(asked 6 GiB, at most 5 GiB free, 1 GiB missing)"
    )


# How a card is cut: best-fit and first-fit


LARGE_FIRST = DevicesConf(
    vgpu=VgpuConf(
        geometries=(
            MigModel(
                ("A100",),
                (
                    MigGroup("whole", (MigInstance("7g.40gb", 40960, 1),)),
                    MigGroup("halves", (MigInstance("3g.20gb", 20480, 2),)),
                    MigGroup("mixed", (MigInstance("2g.10gb", 10240, 3), MigInstance("1g.5gb", 5120, 1))),
                    MigGroup("small", (MigInstance("1g.5gb", 5120, 7),)),
                ),
            ),
        )
    )
)


def test_first_fit_takes_the_first_geometry_of_the_file_best_fit_wastes_least() -> None:
    assert instances(one(devices=LARGE_FIRST, geometry=FIRST_FIT).place(vgpu(1, 3000))) == ["0:whole-0"]
    assert instances(one(devices=LARGE_FIRST).place(vgpu(1, 3000))) == ["0:mixed-3"], "the first of equal waste"


def test_best_fit_prefers_the_card_on_which_least_is_wasted() -> None:
    for geometry, expected in ((BEST_FIT, "0:group1-1"), (FIRST_FIT, "1:group3-1")):
        cluster = one(count=2, policy="binpack", geometry=geometry)
        hold(cluster, "small", "group1-0")
        hold(cluster, "large", "group3-0", card=1)
        assert instances(cluster.place(vgpu(1, 3000))) == [expected], "binpack alone takes the fullest card"


@pytest.mark.parametrize(
    ("policy", "geometry", "expected"),
    [
        ("", BEST_FIT, "0:group1-1"),
        ("binpack", BEST_FIT, "0:group1-1"),
        ("spread", BEST_FIT, "1:group1-0"),
        ("", FIRST_FIT, "1:group1-0"),
    ],
)
def test_best_fit_leaves_unused_cards_uncut_unless_pods_are_spread(policy, geometry, expected) -> None:
    cluster = one(count=2, policy=policy, geometry=geometry)
    hold(cluster, "holder", "group1-0")
    assert instances(cluster.place(vgpu(1, 3000))) == [expected]


def test_an_unused_card_is_cut_by_what_pods_ask() -> None:
    cluster = one()
    assert instances(cluster.place(vgpu(1, 3000))) == ["0:group1-0"], "nobody is known to ask anything"
    cluster.expect([(vgpu(1, 3000), 5), (vgpu(1, 9000), 20)])
    placement = take(cluster, vgpu(1, 3000), "small")
    assert instances(placement) == ["0:group2-3"]
    assert placement.grants[0].devices[0].memory == 5120, "the same size, in a geometry that serves the others too"
    assert instances(cluster.place(vgpu(1, 9000))) == ["0:group2-0"]


def test_what_pods_ask_is_weighed_by_how_many_ask_it() -> None:
    cluster = one()
    cluster.expect([(vgpu(1, 4000), 50), (vgpu(1, 9000), 1)])
    assert instances(cluster.place(vgpu(1, 3000))) == ["0:group1-0"], "six more of the small ones are worth more"


def test_first_fit_does_not_care_what_pods_ask() -> None:
    cluster = one(geometry=FIRST_FIT)
    cluster.expect([(vgpu(1, 9000), 20)])
    assert instances(cluster.place(vgpu(1, 3000))) == ["0:group1-0"]


def test_a_used_card_is_not_cut_anew() -> None:
    cluster = one()
    take(cluster, vgpu(1, 3000), "first")
    cluster.expect([(vgpu(1, 9000), 20)])
    assert instances(cluster.place(vgpu(1, 3000))) == ["0:group1-1"]


def test_a_card_is_cut_for_all_containers_of_a_pod() -> None:
    both = ask(container("small", **{MEMORY: 3000}), container("large", **{MEMORY: 9000}))
    cluster = one()
    assert instances(cluster.place(both)) == ["0:group2-3", "0:group2-0"]
    cluster.expect([(vgpu(1, 3000), 1000)])
    assert instances(cluster.place(both)) == ["0:group2-3", "0:group2-0"], "what others ask comes after that"


# The whole card


@BOTH
@pytest.mark.parametrize(("devices", "memory"), [(DOCS, 80896), (PLUGIN, 80896)], ids=["guide", "plugin"])
@pytest.mark.parametrize("what", [vgpu(1), vgpu(1, percentage=100), vgpu(1, 5, percentage=100)])
def test_the_whole_card_is_the_instance_that_is_a_geometry_by_itself(devices, memory, what, geometry) -> None:
    cluster = one(A100_80, devices=devices, geometry=geometry)
    (grant,) = take(cluster, what, "p").grants
    # MIG keeps a part of the registered 81920 MiB.
    assert (grant.devices[0].detail, grant.devices[0].memory, grant.devices[0].asked) == ("group4-0", memory, 81920)
    assert cluster.place(vgpu(1, 1)) is None


def test_a_used_card_is_no_whole_card() -> None:
    cluster = one(A100_80)
    take(cluster, vgpu(1, 3000), "p")
    assert lines(cluster, vgpu(1)) == {
        "CardMigTopologyInfeasible": "1 Insufficient volcano.sh/vgpu-memory on a free MIG instance of a card "
        "(asked 100%, at most 12% free, 88% missing)"
    }


def test_an_amount_above_every_instance_is_refused_with_the_largest() -> None:
    assert lines(one(A100_80), vgpu(1, 81920)) == {
        "CardInsufficientMemory": "1 Insufficient volcano.sh/vgpu-memory in any MIG geometry of a card "
        "(asked 81920 MiB, at most 80896 MiB free, 1024 MiB missing)"
    }


@pytest.mark.parametrize(("devices", "expected"), [(DOCS, "group3-0"), (PLUGIN, "group4-0")])
def test_a_percentage_is_of_the_registered_memory(devices, expected) -> None:
    assert instances(one(A100_80, devices=devices).place(vgpu(1, percentage=50))) == [f"0:{expected}"]


# Models, modes, nodes


def test_a_model_without_geometry_is_refused_by_its_name() -> None:
    # So NVML calls it; none of the published names is a part of that, and the device plugin matches as we do.
    pcie = card(0, model="NVIDIA-NVIDIA A100 80GB PCIe", memory=81920, mode="mig")
    assert lines(mig_cluster(node("n1", [pcie])), vgpu(1, 1000)) == {
        "CardMigGeometryNotFound": "1 node(s) had MIG cards of a model that knownMigGeometries does not name: "
        "NVIDIA-NVIDIA A100 80GB PCIe"
    }


def test_a_model_is_named_once_the_configuration_knows_it() -> None:
    known = DevicesConf(
        vgpu=VgpuConf(geometries=(MigModel(("A100 80GB PCIe",), (MigGroup("g", (MigInstance("i", 9, 2),)),)),))
    )
    pcie = card(0, model="NVIDIA-NVIDIA A100 80GB PCIe", memory=81920, mode="mig")
    assert instances(mig_cluster(node("n1", [pcie]), devices=known).place(vgpu(1, 5))) == ["0:g-0"]


def test_the_first_model_that_is_a_part_of_the_type_counts() -> None:
    models = (MigModel(("A100-SXM4",), (MigGroup("first", (MigInstance("i", 9, 2),)),)), *DOCS.vgpu.geometries)
    known = DevicesConf(vgpu=VgpuConf(geometries=models))
    assert instances(one(devices=known).place(vgpu(1, 5))) == ["0:first-0"]


def test_without_a_mode_all_three_answer_and_the_mode_restricts_to_one() -> None:
    nodes = [
        node("hami", [card(0, node="h")]),
        node("mig", [mig_card(0, A30, node="m")]),
        node("mps", [card(0, node="p", mode="mps")]),
    ]
    cluster = mig_cluster(*nodes)
    assert cluster.place(vgpu(1, 1000)).feasible == 3
    for mode, family in (("hami-core", "hami"), ("mig", "mig"), ("mps", "mps")):
        placement = cluster.place(vgpu(1, 1000, annotations={MODE: mode}))
        assert (placement.node, placement.feasible, placement.grants[0].family) == (family, 1, mode)
    assert lines(mig_cluster(nodes[0]), vgpu(1, 1000, annotations={MODE: "mig"})) == {
        "ModeNotFit": "1 node(s) had cards that are not in mode mig"
    }


def test_a_node_may_have_cards_of_several_modes() -> None:
    cluster = mig_cluster(node("n1", [mig_card(0), card(1, memory=40960)]), policy="binpack")
    assert take(cluster, vgpu(1, 39000, annotations={MODE: "hami-core"}), "a").grants[0].family == "hami-core"
    assert take(cluster, vgpu(1, 3000), "b").grants[0].family == "mig", "only there is room"
    assert set(lines(cluster, vgpu(1, 30000))) == {"CardInsufficientMemory", "CardMigTopologyInfeasible"}


def test_the_choice_of_cards_holds() -> None:
    two = mig_cluster(node("n1", [mig_card(0), mig_card(1, A30)]))
    assert instances(two.place(vgpu(1, 1000, annotations={"nvidia.com/use-gputype": "A100"}))) == ["0:group1-0"]
    assert instances(two.place(vgpu(1, 1000, annotations={"volcano.sh/vgpu-nouse-gpuuuid": "GPU-1"}))) == ["0:group1-0"]
    assert codes(two, vgpu(1, 1000, annotations={"nvidia.com/use-gputype": "H100"})) == {"CardTypeMismatch"}


# Scores


def test_binpack_scores_the_instance_after_the_placement() -> None:
    cluster = one(policy="binpack")
    assert cluster.place(vgpu(1, 3000)).score == 12.5
    take(cluster, vgpu(1, 3000), "a")
    assert cluster.place(vgpu(1, 3000)).score == 25.0
    assert one(count=2, policy="binpack").place(vgpu(2, 3000)).score == 25.0, "summed over the cards"


@pytest.mark.parametrize(("policy", "expected"), [("binpack", "a"), ("spread", "b")])
def test_binpack_fills_a_node_and_spread_takes_an_empty_one(policy, expected) -> None:
    cluster = mig_cluster(*(node(name, [mig_card(0, node=name)]) for name in "ab"), policy=policy, weight=10)
    take(cluster, vgpu(1, 3000), "first")
    assert cluster.place(vgpu(1, 3000)).node == expected


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
    cluster = one()
    assert instances(take(cluster, what, "p")) == expected
    assert cluster.used_cards("n1") == [used]


def test_an_instance_that_is_used_again_needs_no_slot_more() -> None:
    cluster = mig_cluster(node("n1", [mig_card(0, slots=1)]))
    assert instances(cluster.place(init_ask(9000, 3000))) == ["0:group2-0", "0:group2-0"]
    assert codes(cluster, init_ask(3000, 9000)) == {"CardTimeSlicingExhausted"}


def test_an_init_container_does_not_share_an_instance_with_a_sidecar_that_runs_already() -> None:
    sidecar, init = container("s", sidecar=True, **{MEMORY: 9000}), container("i", **{MEMORY: 9000})
    assert instances(one().place(ask(init_containers=(init, sidecar)))) == ["0:group2-0", "0:group2-0"]
    assert instances(one().place(ask(init_containers=(sidecar, init)))) == ["0:group2-0", "0:group2-1"]


def test_an_init_containers_cores_do_not_add_up_with_the_others() -> None:
    cores = "volcano.sh/vgpu-cores"
    what = ask(
        container("c0", **{MEMORY: 3000, cores: 60}), init_containers=(container("i", **{MEMORY: 3000, cores: 70}),)
    )
    cluster = one()
    take(cluster, what, "p")
    assert cluster.used_cards("n1") == [(5120, 70, 1)]
    assert codes(cluster, vgpu(1, 3000, 31)) == {"CardInsufficientCore"}


def test_init_containers_stand_in_an_annotation_of_our_own() -> None:
    what = init_ask(3000, 9000, sidecar=2000)
    cluster = one()
    placement = take(cluster, what, "p")
    annotations = written(placement)
    assert annotations["volcano.sh/vgpu-ids-new"] == "GPU-0[group2-3],NVIDIA,3000,0:"
    assert (
        annotations["deviceshare.io/vgpu-init-ids"] == "GPU-0[group2-0],NVIDIA,9000,0:;GPU-0[group2-0],NVIDIA,2000,0:"
    )
    again = one()
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
def test_nothing_is_given_on_a_card_whose_pods_hold_what_does_not_go_together(held, used) -> None:
    cluster = one()
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
    cluster = one()
    hold(cluster, "a", "group1-0")
    hold(cluster, "b", "group1-0")
    assert cluster.used_cards("n1") == [(10240, 0, 2)]
    assert instances(cluster.place(vgpu(1, 1))) == ["0:group1-1"]
    cluster.release("n1", "a")
    assert instances(cluster.place(vgpu(1, 1))) == ["0:group1-1"], "the other one has it still"


def test_a_pod_that_names_an_instance_twice_is_charged_once() -> None:
    cluster = one()
    hold(cluster, "a", "group1-0", "group1-0")
    assert cluster.used_cards("n1") == [(5120, 0, 1)]


def test_a_geometry_that_changes_under_running_pods_stops_the_card() -> None:
    cluster = one(devices=DOCS)
    take(cluster, vgpu(1, 3000), "p")
    before = cluster.conf
    cluster.set_configuration(one(devices=LARGE_FIRST).conf)
    assert codes(cluster, vgpu(1, 1)) == {"CardMigInstancesConflict"}
    cluster.set_configuration(before)
    assert instances(cluster.place(vgpu(1, 1))) == ["0:group1-1"]


def test_a_pod_of_volcano_on_a_card_without_geometry_is_charged_what_it_asked() -> None:
    # Volcano takes such a node for hami-core.
    unknown = card(0, model="NVIDIA-H200", memory=90000, mode="mig")
    cluster = mig_cluster(node("n1", [unknown]))
    what = vgpu(1, 3000)
    cluster.hold("n1", "a", read({"volcano.sh/vgpu-ids-new": "GPU-0,NVIDIA,3000,20:"}, what), ())
    assert cluster.used_cards("n1") == [(3000, 20, 1)]


# Being kept apart


def test_pods_of_a_group_are_kept_apart_card_by_card() -> None:
    cluster = one(count=2)
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
    cluster = one()
    first = take(cluster, vgpu(1, 3000), "first")
    cluster.hold("n1", "first", first.grants, (), Tenant("", rule))
    assert instances(cluster.place(apart(vgpu(1, 3000), rules=(rule,)))) == ["0:group1-1"]


# Annotations


def test_the_annotation_names_the_request_and_the_instance() -> None:
    annotations = written(one().place(vgpu(1, 3000, 20)))
    assert annotations["volcano.sh/vgpu-ids-new"] == "GPU-0[group1-0],NVIDIA,3000,20:"
    assert "deviceshare.io/vgpu-init-ids" not in annotations


def test_instances_and_other_devices_are_read_by_their_families() -> None:
    what = ask(container("a", **{NUMBER: 1}), container("b", **{NUMBER: 1}))
    text = "GPU-0[group1-0],NVIDIA,3000,20:;GPU-1,NVIDIA,500,0:"
    by_family = {grant.family: grant for grant in read({"volcano.sh/vgpu-ids-new": text}, what)}
    assert by_family["mig"] == ContainerGrant("a", 0, "mig", (DeviceGrant("GPU-0", -1, 3000, 20, "group1-0"),))
    assert by_family["hami-core"] == ContainerGrant("b", 1, "hami-core", (DeviceGrant("GPU-1", -1, 500, 0),))


def test_the_environment_is_the_plugins_to_tell() -> None:
    (grant,) = one().place(vgpu(1, 3000)).grants
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
    cluster = one(count=2)
    cluster.hold("n1", "a", pod.held, ())
    assert cluster.used_cards("n1") == [(3000, 20, 1), (5120, 0, 1)]
    assert instances(cluster.place(vgpu(1, 1))) == ["1:group1-1"]
