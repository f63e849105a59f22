"""vGPU requests: the configuration's names and defaults, init containers, pods that are kept apart."""

import pytest
from deviceshare.allocation import Allocator
from deviceshare.conf import BUILT_IN
from deviceshare.families import BY_NAME, caveats
from deviceshare.families.vgpu.section import VgpuConf
from deviceshare.model import ContainerGrant, DeviceGrant, Tenant
from msgspec.structs import replace
from support.builders import (
    MEMORY,
    NUMBER,
    ask,
    card,
    cards,
    chosen,
    claim_of,
    cluster,
    codes,
    conf,
    container,
    devices,
    node,
    problem,
    take,
    vgpu,
)
from support.mig import apart, read, written

FAMILY = BY_NAME["hami-core"]
USE, NOUSE = "nvidia.com/use-gputype", "nvidia.com/nouse-gputype"
USE_ID, NOUSE_ID = "volcano.sh/vgpu-use-gpuuuid", "volcano.sh/vgpu-nouse-gpuuuid"


# Names and defaults of the configuration


def named(**names) -> Allocator:
    """Return a node with two cards, where the request has other names."""
    one = Allocator(replace(conf(), devices=BUILT_IN.having(VgpuConf(**names))))
    one.set_node(node(cards=cards(2)))
    return one


def test_the_configuration_names_the_resources() -> None:
    other = named(number="x/gpus", memory="x/mem", percentage="x/part", cores="x/cores")
    asked = {"x/gpus": 2, "x/mem": 700, "x/cores": 5}
    assert devices(other.place(ask(container(**asked)))) == [("GPU-1", 700, 5), ("GPU-0", 700, 5)]
    assert devices(other.place(ask(container(**{"x/part": 25})))) == [("GPU-1", 8192, 0)]
    assert other.place(vgpu(1, 700)) is None, "these are no resources of the nodes"
    assert "x/mem" in other.why_not(ask(container(**{"x/mem": 99999}))).refusals[0].text


def test_a_resource_without_a_name_cannot_be_requested() -> None:
    assert named(percentage="").place(vgpu(1, percentage=25)) is None, "in Volcano it is the whole card"


def test_the_configuration_sets_the_default_of_a_request() -> None:
    usual = named(default_number=2, default_memory=500, default_cores=30)
    assert devices(usual.place(vgpu(None, 700))) == [("GPU-1", 700, 30), ("GPU-0", 700, 30)]
    assert devices(usual.place(vgpu(1))) == [("GPU-1", 500, 30)]
    assert devices(usual.place(vgpu(1, cores=0))) == [("GPU-1", 500, 0)]
    assert devices(usual.place(vgpu(1, percentage=100))) == [("GPU-1", 32768, 30)]


def test_more_cards_than_any_node_has_are_refused_before_room_is_made_for_them() -> None:
    assert problem(vgpu(10**9)).expected == "1 to 128, or no vGPU resources at all"


# Init containers and sidecars


def with_inits(main: int, init: int = 0, sidecar: int = 0):
    inits = [container("i", **{MEMORY: init})] if init else []
    inits += [container("s", sidecar=True, **{MEMORY: sidecar})] if sidecar else []
    return ask(container("c0", **{MEMORY: main}), init_containers=tuple(inits))


@pytest.mark.parametrize(
    ("what", "used"),
    [
        (with_inits(1000, 4000), (4000, 0, 1)),
        (with_inits(4000, 1000), (4000, 0, 1)),
        (with_inits(1000, sidecar=2000), (3000, 0, 2)),
        (with_inits(1000, 2500, 2000), (3000, 0, 2)),
        (with_inits(1000, 5000, 2000), (5000, 0, 2)),
    ],
)
def test_a_card_is_charged_its_largest_init_container_or_the_sum_of_the_others(what, used) -> None:
    one = cluster(node(cards=cards(1)))
    placement = take(one, what, "p")
    assert one.used_cards("n1") == [used]
    again = cluster(node(cards=cards(1)))
    again.hold("n1", "p", read(written(placement), what), ())
    assert again.used_cards("n1") == [used], "annotations alone restore the same state"


def test_an_init_container_takes_the_cards_that_the_pod_has_anyway() -> None:
    two = cluster(node(cards=cards(2)), policy="spread")
    assert chosen(two.place(with_inits(1000, 4000))) == [0, 0]
    assert chosen(two.place(with_inits(1000, sidecar=4000))) == [0, 1], "a sidecar stays, the policy spreads it"


def test_what_an_init_container_lacks_is_not_what_the_others_take() -> None:
    one = cluster(node(cards=cards(1, memory=1000)))
    (refusal,) = one.why_not(with_inits(800, 1200)).refusals
    assert (refusal.code, refusal.asked, refusal.free) == ("CardInsufficientMemory", 1200, 1000)


def test_the_annotations_of_init_containers_and_sidecars() -> None:
    placement = cluster(node(cards=cards(1))).place(with_inits(1000, 4000, 2000))
    annotations = written(placement)
    assert annotations["volcano.sh/vgpu-ids-new"] == "GPU-0,NVIDIA,1000,0:"
    assert annotations["deviceshare.io/vgpu-init-ids"] == "GPU-0,NVIDIA,4000,0:;GPU-0,NVIDIA,2000,0:"
    assert caveats(placement.grants) == (
        "vGPUs in init containers (s, i): the vGPU device plugin serves spec.containers only",
    )


def test_every_init_container_has_its_slot() -> None:
    inits = tuple(container(name, **({MEMORY: 10} if name == "b" else {})) for name in "abc")
    placement = cluster(node(cards=cards(1))).place(ask(container("c0", **{MEMORY: 10}), init_containers=inits))
    annotations = FAMILY.annotations(claim_of(placement), "n1", ["c0"], 1.0, ["a", "b", "c"])
    assert annotations["deviceshare.io/vgpu-init-ids"] == ";GPU-0,NVIDIA,10,0:;"


def test_an_init_container_with_an_invalid_request_is_named() -> None:
    what = ask(init_containers=(container("i", **{NUMBER: 0, MEMORY: 1}),))
    assert problem(what).field == "spec.initContainers[i].resources.limits[volcano.sh/vgpu-number]"


# Being kept apart


def hold(one: Allocator, uid: str, tenant: Tenant, *, index: int = 0, memory: int = 10, cores: int = 0) -> None:
    grants = (ContainerGrant("c0", 0, "hami-core", (DeviceGrant(f"GPU-{index}", index, memory, cores),)),)
    one.hold("n1", uid, grants, (), tenant)


def test_pods_of_a_group_are_kept_apart_but_not_a_pods_own_containers() -> None:
    two = cluster(node(cards=cards(2)))
    hold(two, "mate", Tenant("ns/gang"), index=1)
    hold(two, "other", Tenant("ns/other"))
    what = vgpu(1, 10, containers=2)
    assert chosen(two.place(apart(what, "ns/gang"))) == [0, 0]
    assert chosen(two.place(what)) == [1, 1], "who does not ask to be apart is not"
    hold(two, "mate2", Tenant("ns/gang"))
    (refusal,) = two.why_not(apart(what, "ns/gang")).refusals
    assert (refusal.code, refusal.cards) == ("CardPodGroupConflict", 2)
    two.release("n1", "mate2")
    assert chosen(two.place(apart(what, "ns/gang"))) == [0, 0]


def test_a_mate_that_takes_nothing_of_a_card_does_not_block_it() -> None:
    one = cluster(node(cards=cards(1)))
    hold(one, "mate", Tenant("ns/gang"), memory=0)
    assert chosen(one.place(apart(vgpu(1, 10), "ns/gang"))) == [0]
    hold(one, "mate", Tenant("ns/gang"), memory=0, cores=1)
    assert one.place(apart(vgpu(1, 10), "ns/gang")) is None


@pytest.mark.parametrize("mode", ["hami-core", "mps"])
def test_pods_of_one_rule_never_share_a_card(mode) -> None:
    training, batch = (("kind", "training"),), (("kind", "batch"), ("priority", "high"))
    one = cluster(node(cards=[card(0, mode=mode)]))
    hold(one, "holder", Tenant("", (("kind", "batch"), ("other", "x"), ("priority", "high"))))
    assert one.place(apart(vgpu(1, 10), rules=(training,))) is not None, "another rule"
    assert codes(one, apart(vgpu(1, 10), rules=(training, batch))) == {"CardExclusiveRuleConflict"}
    hold(one, "holder", Tenant("", (("kind", "batch"),)))
    assert one.place(apart(vgpu(1, 10), rules=(batch,))) is not None, "it lacks one of the rule's labels"
