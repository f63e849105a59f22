"""MIG: which instance a pod gets, how an unused card is cut, and why nothing is given."""

import pytest
from deviceshare.conf import BUILT_IN, FIRST_FIT
from deviceshare.conf.model import BEST_FIT
from deviceshare.families.vgpu.section import MigGroup, MigInstance, MigModel, VgpuConf
from support.builders import ask, card, codes, container, node, take, vgpu
from support.mig import (
    A30,
    A100_40,
    A100_80,
    DOCS,
    IN_GIB,
    PLUGIN,
    hold,
    instances,
    lines,
    mig_card,
    mig_cluster,
    one_node,
    written,
)

MODE, MEMORY = "volcano.sh/vgpu-mode", "volcano.sh/vgpu-memory"
BOTH = pytest.mark.parametrize("geometry", [BEST_FIT, FIRST_FIT])


# Which instance


@BOTH
@pytest.mark.parametrize(
    ("memory", "expected"),
    [(1, "group1-0"), (5120, "group1-0"), (5121, "group2-0"), (10241, "group3-0"), (20481, "group4-0")],
)
def test_an_unused_card_is_cut_for_the_smallest_instance_that_holds_the_request(memory, expected, geometry) -> None:
    (grant,) = one_node(geometry=geometry).place(vgpu(1, memory)).grants
    assert grant.family == "mig"
    assert grant.devices[0].detail == expected
    assert grant.devices[0].asked == memory


@BOTH
def test_an_instance_is_never_allocated_twice_and_its_memory_is_charged(geometry) -> None:
    cluster = one_node(geometry=geometry)
    placed = [instances(take(cluster, vgpu(1, 3000), f"p{at}")) for at in range(7)]
    assert placed == [[f"0:group1-{at}"] for at in range(7)]
    assert cluster.used_cards("n1") == [(7 * 5120, 0, 7)]
    assert lines(cluster, vgpu(1, 3000)) == {
        "CardMigTopologyInfeasible": "1 Insufficient volcano.sh/vgpu-memory on a free MIG instance of a card "
        "(asked 3000 MiB, at most 0 MiB free, 3000 MiB missing)"
    }


@BOTH
def test_the_containers_of_a_pod_get_instances_of_their_own(geometry) -> None:
    cluster = one_node(geometry=geometry)
    assert instances(take(cluster, vgpu(1, 9000, containers=3), "p")) == ["0:group2-0", "0:group2-1", "0:group2-2"]
    assert cluster.used_cards("n1") == [(3 * 10240, 0, 3)]
    assert one_node(geometry=geometry).place(vgpu(1, 9000, containers=4)) is None


@BOTH
def test_all_kinds_of_instance_of_a_geometry_in_use_are_allocated(geometry) -> None:
    cluster = one_node(geometry=geometry)
    take(cluster, vgpu(1, 9000), "large")
    assert instances(take(cluster, vgpu(1, 3000), "small")) == ["0:group2-3"], "the 1g.5gb, which is unused"


@BOTH
def test_an_empty_card_takes_any_geometry_again(geometry) -> None:
    cluster = one_node(geometry=geometry)
    take(cluster, vgpu(1, 3000), "p")
    assert cluster.place(vgpu(1, 30000)) is None
    cluster.release("n1", "p")
    assert cluster.used_cards("n1") == [(0, 0, 0)]
    assert instances(cluster.place(vgpu(1, 30000))) == ["0:group4-0"]


def test_several_instances_of_one_container_are_on_distinct_cards() -> None:
    cluster = one_node(count=3)
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


LARGE_FIRST = BUILT_IN.having(
    VgpuConf(
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
    assert instances(one_node(devices=LARGE_FIRST, geometry=FIRST_FIT).place(vgpu(1, 3000))) == ["0:whole-0"]
    assert instances(one_node(devices=LARGE_FIRST).place(vgpu(1, 3000))) == ["0:mixed-3"], "the first of equal waste"


def test_best_fit_prefers_the_card_on_which_least_is_wasted() -> None:
    for geometry, expected in ((BEST_FIT, "0:group1-1"), (FIRST_FIT, "1:group3-1")):
        cluster = one_node(count=2, policy="binpack", geometry=geometry)
        hold(cluster, "small", "group1-0")
        hold(cluster, "large", "group3-0", card=1)
        assert instances(cluster.place(vgpu(1, 3000))) == [expected], "binpack alone takes the fullest card"


@pytest.mark.parametrize(("geometry", "expected"), [(BEST_FIT, "n2"), (FIRST_FIT, "n1")])
def test_of_equal_nodes_best_fit_takes_the_one_that_wastes_least_first_fit_the_first_by_name(
    geometry, expected
) -> None:
    nodes = node("n1", [mig_card(0, A30)]), node("n2", [mig_card(0, A100_40, node="n2")])
    cluster = mig_cluster(*nodes, geometry=geometry)
    assert cluster.place(vgpu(1, 3000)).node == expected


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
    cluster = one_node(count=2, policy=policy, geometry=geometry)
    hold(cluster, "holder", "group1-0")
    assert instances(cluster.place(vgpu(1, 3000))) == [expected]


def test_an_unused_card_is_cut_by_what_pods_request() -> None:
    cluster = one_node()
    assert instances(cluster.place(vgpu(1, 3000))) == ["0:group1-0"], "no request is known yet"
    cluster.expect([(vgpu(1, 3000), 5), (vgpu(1, 9000), 20)])
    placement = take(cluster, vgpu(1, 3000), "small")
    assert instances(placement) == ["0:group2-3"]
    assert placement.grants[0].devices[0].memory == 5120, "the same size, in a geometry that serves the others too"
    assert instances(cluster.place(vgpu(1, 9000))) == ["0:group2-0"]


def test_what_pods_request_is_weighed_by_how_many_request_it() -> None:
    cluster = one_node()
    cluster.expect([(vgpu(1, 4000), 50), (vgpu(1, 9000), 1)])
    assert instances(cluster.place(vgpu(1, 3000))) == ["0:group1-0"], "six more of the small ones are worth more"


def test_first_fit_does_not_care_what_pods_request() -> None:
    cluster = one_node(geometry=FIRST_FIT)
    cluster.expect([(vgpu(1, 9000), 20)])
    assert instances(cluster.place(vgpu(1, 3000))) == ["0:group1-0"]


def test_a_used_card_is_not_cut_anew() -> None:
    cluster = one_node()
    take(cluster, vgpu(1, 3000), "first")
    cluster.expect([(vgpu(1, 9000), 20)])
    assert instances(cluster.place(vgpu(1, 3000))) == ["0:group1-1"]


def test_a_card_is_cut_for_all_containers_of_a_pod() -> None:
    both = ask(container("small", **{MEMORY: 3000}), container("large", **{MEMORY: 9000}))
    cluster = one_node()
    assert instances(cluster.place(both)) == ["0:group2-3", "0:group2-0"]
    cluster.expect([(vgpu(1, 3000), 1000)])
    assert instances(cluster.place(both)) == ["0:group2-3", "0:group2-0"], "what others ask comes after that"


# The whole card


@BOTH
@pytest.mark.parametrize(("devices", "memory"), [(DOCS, 80896), (PLUGIN, 80896)], ids=["guide", "plugin"])
@pytest.mark.parametrize("what", [vgpu(1), vgpu(1, percentage=100), vgpu(1, 5, percentage=100)])
def test_the_whole_card_is_the_instance_that_is_a_geometry_by_itself(devices, memory, what, geometry) -> None:
    cluster = one_node(A100_80, devices=devices, geometry=geometry)
    (grant,) = take(cluster, what, "p").grants
    # MIG keeps a part of the registered 81920 MiB.
    assert (grant.devices[0].detail, grant.devices[0].memory, grant.devices[0].asked) == ("group4-0", memory, 81920)
    assert cluster.place(vgpu(1, 1)) is None


def test_a_used_card_is_no_whole_card() -> None:
    cluster = one_node(A100_80)
    take(cluster, vgpu(1, 3000), "p")
    assert lines(cluster, vgpu(1)) == {
        "CardMigTopologyInfeasible": "1 Insufficient volcano.sh/vgpu-memory on a free MIG instance of a card "
        "(asked 100%, at most 12% free, 88% missing)"
    }


def test_an_amount_above_every_instance_is_refused_with_the_largest() -> None:
    assert lines(one_node(A100_80), vgpu(1, 81920)) == {
        "CardInsufficientMemory": "1 Insufficient volcano.sh/vgpu-memory in any MIG geometry of a card "
        "(asked 81920 MiB, at most 80896 MiB free, 1024 MiB missing)"
    }


@pytest.mark.parametrize(("devices", "expected"), [(DOCS, "group3-0"), (PLUGIN, "group4-0")])
def test_a_percentage_is_of_the_registered_memory(devices, expected) -> None:
    assert instances(one_node(A100_80, devices=devices).place(vgpu(1, percentage=50))) == [f"0:{expected}"]


# Models, modes, nodes


def test_a_model_without_geometry_is_refused_by_its_name() -> None:
    # So NVML calls it; none of the published names is a part of that, and the device plugin matches as we do.
    pcie = card(0, model="NVIDIA-NVIDIA A100 80GB PCIe", memory=81920, mode="mig")
    assert lines(mig_cluster(node("n1", [pcie])), vgpu(1, 1000)) == {
        "CardMigGeometryNotFound": "1 node(s) had MIG cards of a model that knownMigGeometries does not name: "
        "NVIDIA-NVIDIA A100 80GB PCIe"
    }


def test_a_model_is_named_once_the_configuration_knows_it() -> None:
    known = BUILT_IN.having(
        VgpuConf(geometries=(MigModel(("A100 80GB PCIe",), (MigGroup("g", (MigInstance("i", 9, 2),)),)),))
    )
    pcie = card(0, model="NVIDIA-NVIDIA A100 80GB PCIe", memory=81920, mode="mig")
    assert instances(mig_cluster(node("n1", [pcie]), devices=known).place(vgpu(1, 5))) == ["0:g-0"]


def test_the_first_model_that_is_a_part_of_the_type_counts() -> None:
    models = (
        MigModel(("A100-SXM4",), (MigGroup("first", (MigInstance("i", 9, 2),)),)),
        *DOCS.section(VgpuConf).geometries,
    )
    known = BUILT_IN.having(VgpuConf(geometries=models))
    assert instances(one_node(devices=known).place(vgpu(1, 5))) == ["0:first-0"]


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
    cluster = one_node(policy="binpack")
    assert cluster.place(vgpu(1, 3000)).score == 12.5
    take(cluster, vgpu(1, 3000), "a")
    assert cluster.place(vgpu(1, 3000)).score == 25.0
    assert one_node(count=2, policy="binpack").place(vgpu(2, 3000)).score == 25.0, "summed over the cards"


@pytest.mark.parametrize(("policy", "expected"), [("binpack", "a"), ("spread", "b")])
def test_binpack_fills_a_node_and_spread_takes_an_empty_one(policy, expected) -> None:
    cluster = mig_cluster(*(node(name, [mig_card(0, node=name)]) for name in "ab"), policy=policy, weight=10)
    take(cluster, vgpu(1, 3000), "first")
    assert cluster.place(vgpu(1, 3000)).node == expected
