"""Which pods `deviceshare drain card` takes for those with a share of a card, in every kind of cluster."""

from typing import Any

import pytest
from deviceshare.model import PodUid
from deviceshare_cli.card_holders import SystemView
from deviceshare_cli.errors import CommandError
from support.draining import cordoned, names, pod, run, unread

pytestmark = pytest.mark.usefixtures("drained_nodes")


async def test_all_pods_with_a_share_of_the_card_go_and_no_others(
    cluster: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    for each in (
        pod("a", "GPU-0"),
        pod("both", "GPU-0", "GPU-1"),
        pod("other-card", "GPU-1"),
        pod("other-node", "GPU-0", node="gpu-2"),
        {**pod("ended", "GPU-0"), "status": {"phase": "Succeeded"}},
    ):
        await cluster.create(each)
    assert await run(cluster, "gpu-1/0") == 0
    assert await names(cluster) == ["ended", "other-card", "other-node"]
    assert await cordoned(cluster) == ["GPU-0"]
    out, err = capsys.readouterr()
    assert err == ""
    lines = out.splitlines()
    assert lines[:3] == ["gpu-1/GPU-0 cordoned", "evicting pod default/a", "evicting pod default/both"]
    assert sorted(lines[3:5]) == ["pod default/a evicted", "pod default/both evicted"]
    assert lines[5:] == ["gpu-1/GPU-0 drained: 2 pods evicted"]


HIDING = {
    "an annotation that cannot be read": {"deviceshare.io/vgpu-init-ids": "GPU-0,NVIDIA,garbage:"},
    "more devices than are read": {"volcano.sh/vgpu-ids-new": "GPU-1,NVIDIA,1,1:" * 1100 + "GPU-0,NVIDIA,1000,10:;"},
    "other annotations with too many devices": {"volcano.sh/gpu-index": ",".join(map(str, range(1100)))},
    "a part that the signature does not cover": {
        "deviceshare.io/signature": "0:volcano.sh/vgpu-ids-new",
        "deviceshare.io/vgpu-init-ids": "GPU-1,NVIDIA,garbage:",
    },
}


@pytest.mark.parametrize("annotations", HIDING.values(), ids=list(HIDING))
async def test_a_pod_does_not_hide_by_further_annotations(cluster: Any, annotations: dict[str, str]) -> None:
    hiding = pod("hiding", "GPU-0")
    hiding["metadata"]["annotations"] |= annotations
    await cluster.create(hiding)
    await run(cluster, "gpu-1/GPU-0")
    assert await names(cluster) == []


async def test_a_pod_with_other_annotations_goes_if_the_running_system_knows_its_card(cluster: Any) -> None:
    uids = {}
    for name in ("overwritten", "other"):
        await cluster.create(pod(name, "GPU-1"))
        uids[name] = (await cluster.get("Pod", "default", name))["metadata"]["uid"]

    async def system() -> SystemView:
        first, second = (frozenset({("gpu-1", each)}) for each in ("GPU-0", "GPU-1"))
        held = {uids["overwritten"]: first, uids["other"]: second, PodUid("an older one"): first}
        return SystemView(first | second, held)

    assert await run(cluster, "gpu-1/GPU-0", system=system) == 0
    assert await names(cluster) == ["other"]


DOUBTS = {
    "nothing": (SystemView(), "does not know gpu-1/GPU-0"),
    "another cluster": (SystemView(frozenset({("gpu-7", "GPU-7")})), "does not know gpu-1/GPU-0"),
    "some namespaces": (
        SystemView(frozenset({("gpu-1", "GPU-0"), ("gpu-1", "GPU-1")})),
        "does not show these pods of the nodes: default/overwritten",
    ),
}


@pytest.mark.parametrize(("view", "doubt"), DOUBTS.values(), ids=list(DOUBTS))
async def test_a_running_system_that_does_not_show_the_cards_and_pods_leaves_a_doubt(
    cluster: Any, capsys: pytest.CaptureFixture[str], view: SystemView, doubt: str
) -> None:
    await cluster.create(pod("overwritten", "GPU-1"))

    async def system() -> SystemView:
        return view

    assert await run(cluster, "gpu-1/GPU-0", system=system) == 1
    assert f"error: pods whose annotations were changed may be missed: the running system {doubt}" in (
        capsys.readouterr().err.splitlines()
    )


async def test_a_pod_that_the_running_system_shows_later_leaves_no_doubt(cluster: Any) -> None:
    await cluster.create(pod("new", "GPU-1"))
    uid = (await cluster.get("Pod", "default", "new"))["metadata"]["uid"]
    cards = frozenset({("gpu-1", "GPU-0"), ("gpu-1", "GPU-1")})
    views = [SystemView(cards), SystemView(cards, {uid: frozenset({("gpu-1", "GPU-1")})})]

    async def system() -> SystemView:
        return views.pop(0) if len(views) > 1 else views[0]

    assert await run(cluster, "gpu-1/GPU-0", system=system, dry_run=True) == 0


async def test_a_running_system_that_does_not_answer_leaves_a_doubt(
    cluster: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    await cluster.create(pod("a", "GPU-0"))

    async def system() -> SystemView:
        raise CommandError("the metrics service does not answer")

    assert await run(cluster, "gpu-1/GPU-0", system=system) == 1
    assert await names(cluster) == []
    assert capsys.readouterr().err.splitlines() == [
        "error: pods whose annotations were changed may be missed: the metrics service does not answer",
        "error: gpu-1/GPU-0 not drained: 1 pod evicted",
    ]


UNSERVED = {"volcano.sh/devices-to-allocate": "GPU-1,NVIDIA,1000,10:;", "volcano.sh/bind-phase": "allocating"}
MALFORMED = {"volcano.sh/vgpu-ids-new": "GPU-0,NVIDIA,garbage:"}


async def test_pods_whose_cards_cannot_be_read_are_named_and_stay(
    cluster: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    unserved = pod("unserved", "GPU-1")
    unserved["metadata"]["annotations"] |= UNSERVED
    without_devices = unread("without-devices", MALFORMED | UNSERVED)
    without_devices["spec"]["containers"][0]["resources"] = {}
    for each in (
        pod("a", "GPU-0"),
        unread("malformed", MALFORMED),
        unread("missing"),
        unread("of-another-kind", {"hami.io/vgpu-devices-allocated": "GPU-9,NVIDIA,1000,10:;"}),
        unserved,
        without_devices,
        pod("other", "GPU-1"),
        {**unread("ended"), "status": {"phase": "Failed"}},
    ):
        await cluster.create(each)
    assert await run(cluster, "gpu-1/GPU-0") == 1
    assert await names(cluster) == [
        "ended",
        "malformed",
        "missing",
        "of-another-kind",
        "other",
        "unserved",
        "without-devices",
    ]
    assert capsys.readouterr().err.splitlines() == [
        "Warning: pod default/malformed may have a share, since its cards cannot be read: Pod default/malformed: "
        "metadata.annotations[volcano.sh/vgpu-ids-new]: 'GPU-0,NVIDIA,garbage' is not valid: expected "
        "UUID,NVIDIA,memory,cores: for each device, containers separated by ;",
        "Warning: pod default/missing may have a share, since its cards cannot be read: "
        "it requests volcano.sh/vgpu-memory, volcano.sh/vgpu-number, and its annotations do not name the cards of all",
        "Warning: pod default/of-another-kind may have a share, since its cards cannot be read: "
        "it requests volcano.sh/vgpu-memory, volcano.sh/vgpu-number, and its annotations do not name the cards of all",
        "Warning: pod default/unserved may have a share, since its cards cannot be read: Pod default/unserved: kubelet "
        "has admitted the pod on gpu-1, and its device plugin has not served it: its containers have the devices of "
        "another pod",
        "error: gpu-1/GPU-0 not drained: 1 pod evicted, 4 may have it",
    ]


async def test_a_pod_with_the_annotations_of_another_one_stays(
    cluster: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = pod("copy", "GPU-0")
    copy["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "1", "huawei.com/npu-core": "0"}}
    await cluster.create(copy)
    await cluster.create(pod("a", "GPU-0"))
    assert await run(cluster, "gpu-1/GPU-0") == 0
    assert await names(cluster) == ["copy"]
    out, err = capsys.readouterr()
    assert err == "Warning: pod default/copy stays: it names the card, and requests no device of the kind\n"
    assert out.endswith("gpu-1/GPU-0 drained: 1 pod evicted\n")


UNKNOWN: list[tuple[dict[str, str], dict[str, str]]] = [
    ({"huawei.com/Ascend910B3": "1", "huawei.com/Ascend910B3-memory": "8000"}, {}),
    ({"huawei.com/Ascend910": "2"}, {}),
    ({"example.com/vgpu": "1"}, {}),
    ({"nvidia.com/gpu": "1"}, {}),
    ({"nvidia.com/mig-1g.5gb": "1"}, {}),
    ({"nvidia.com/gpu.shared": "1"}, {}),
    # The cards of resources that are named otherwise, hidden behind those of a kind that the default names request.
    (
        {"example.com/vgpu": "1", "nvidia.com/gpumem": "1"},
        {"volcano.sh/vgpu-ids-new": "GPU-0,NVIDIA,1000,10:;", "hami.io/vgpu-devices-allocated": "GPU-9,NVIDIA,1,1:;"},
    ),
    (
        {"nvidia.com/gpu": "1"},
        {"volcano.sh/vgpu-ids-new": "GPU-0,NVIDIA,1000,10:;", "hami.io/vgpu-devices-allocated": "GPU-9,NVIDIA,1,1:;"},
    ),
]


@pytest.mark.parametrize(("requested", "annotations"), UNKNOWN)
async def test_a_pod_that_requests_what_may_be_cards_is_named_if_they_are_not_known(
    cluster: Any, capsys: pytest.CaptureFixture[str], requested: dict[str, str], annotations: dict[str, str]
) -> None:
    hiding = unread("hiding", annotations)
    hiding["spec"]["containers"][0]["resources"] = {"limits": requested}
    await cluster.create(hiding)
    uid = (await cluster.get("Pod", "default", "hiding"))["metadata"]["uid"]
    assert await run(cluster, "gpu-1/GPU-0") == 1
    assert await names(cluster) == ["hiding"]
    assert capsys.readouterr().err.splitlines() == [
        "Warning: pod default/hiding may have a share, since its cards cannot be read: it requests "
        f"{', '.join(sorted(requested))}, and its annotations do not name the cards of all",
        "error: gpu-1/GPU-0 not drained: 0 pods evicted, 1 may have it",
    ]
    cards = frozenset({("gpu-1", "GPU-0"), ("gpu-1", "GPU-1")})

    async def without_devices() -> SystemView:
        return SystemView(cards, {uid: frozenset()})

    async def elsewhere() -> SystemView:
        return SystemView(cards, {uid: frozenset({("gpu-1", "GPU-1")})})

    is_excused = requested.keys() == {"example.com/vgpu"}
    assert await run(cluster, "gpu-1/GPU-0", system=without_devices) == (0 if is_excused else 1), "kubelet chooses"
    assert await run(cluster, "gpu-1/GPU-0", system=elsewhere) == 0


async def test_the_running_system_shows_that_annotations_are_not_of_the_cards_that_kubelet_chose(cluster: Any) -> None:
    forged = pod("forged", "GPU-1")
    forged["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/mig-1g.5gb": "1"}}
    await cluster.create(forged)
    uid = (await cluster.get("Pod", "default", "forged"))["metadata"]["uid"]

    async def system() -> SystemView:
        return SystemView(frozenset({("gpu-1", "GPU-0"), ("gpu-1", "GPU-1")}), {uid: frozenset()})

    assert await run(cluster, "gpu-1/GPU-0", system=system) == 1
    assert await names(cluster) == ["forged"]


@pytest.mark.parametrize("requested", [{"rdma/hca": "1", "huawei.com/npu-core": "0"}, {"volcano.sh/vgpu-number": "0"}])
async def test_a_pod_that_requests_no_cards_leaves_no_doubt(
    cluster: Any, capsys: pytest.CaptureFixture[str], requested: dict[str, str]
) -> None:
    other = unread("other")
    other["spec"]["containers"][0]["resources"] = {"limits": requested}
    await cluster.create(other)
    assert await run(cluster, "gpu-1/GPU-0") == 0
    assert capsys.readouterr().err == ""


async def test_a_pod_with_resources_that_are_named_otherwise_goes(cluster: Any) -> None:
    renamed = pod("renamed", "GPU-0")
    renamed["spec"]["containers"][0]["resources"] = {"limits": {"example.com/share": "1"}}
    await cluster.create(renamed)
    assert await run(cluster, "gpu-1/GPU-0") == 0
    assert await names(cluster) == []


@pytest.mark.parametrize(("known", "status"), [("GPU-1", 0), ("nvidia.com/gpu", 1)])
async def test_the_cards_that_a_running_system_knows_need_not_be_read(cluster: Any, known: str, status: int) -> None:
    """Cards that the device plugin offers as a plain number have no ids that it could know."""
    await cluster.create(unread("missing"))
    uid = (await cluster.get("Pod", "default", "missing"))["metadata"]["uid"]

    async def system() -> SystemView:
        cards = frozenset({("gpu-1", "GPU-0"), ("gpu-1", "GPU-1")})
        return SystemView(cards, {uid: frozenset({("gpu-1", known)})})

    assert await run(cluster, "gpu-1/GPU-0", system=system) == status
    assert await names(cluster) == ["missing"]


async def test_pods_with_instances_of_a_mig_card_go(cluster: Any) -> None:
    await cluster.create(pod("instance", "GPU-M[0-0]"))
    await cluster.create(pod("a", "GPU-0"))
    assert await run(cluster, "gpu-1/GPU-M", "gpu-1/GPU-1") == 0
    assert await names(cluster) == ["a"]
    assert await cordoned(cluster) == ["GPU-1", "GPU-M"]
