"""`deviceshare fit` for pods with ResourceClaims."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from deviceshare.conf import default_conf
from deviceshare.model import NodeFact
from deviceshare.scheduler import Scheduler
from deviceshare_bus.messages.subjects import fact
from deviceshare_cli.errors import NotAllowedError
from deviceshare_cli.reading.state import scheduler_of
from deviceshare_cli.whatif.addition import Addition, slices_like
from deviceshare_cli.whatif.changed_cluster import ClusterChanges, change_cluster
from deviceshare_cli.whatif.fit import _devices
from deviceshare_cli.whatif.fitting import Fit, Fits, fit
from deviceshare_cli.whatif.manifests import read_files
from deviceshare_cli.whatif.resource_claims import device_objects, with_resource_claims
from msgspec.structs import replace
from support.devices import DRIVER, NOW

API = {"apiVersion": "resource.k8s.io/v1"}
Json = dict[str, Any]


def asking(count: int) -> Json:
    exactly = {"deviceClassName": "gpu", "count": count}
    return {"devices": {"requests": [{"name": "gpus", "exactly": exactly}]}}


def claim(name: str, count: int, *devices: str) -> Json:
    """Return a claim, allocated if devices of the node ``n1`` are given."""
    results = [{"request": "gpus", "driver": DRIVER, "pool": "n1", "device": each} for each in devices]
    on_n1 = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]
    allocation = {"devices": {"results": results}, "nodeSelector": {"nodeSelectorTerms": on_n1}}
    obj = {**API, "kind": "ResourceClaim", "metadata": {"name": name, "namespace": "default"}, "spec": asking(count)}
    return {**obj, "status": {"allocation": allocation}} if devices else obj


def template(name: str, count: int) -> Json:
    metadata = {"name": name, "namespace": "default"}
    return {**API, "kind": "ResourceClaimTemplate", "metadata": metadata, "spec": {"spec": asking(count)}}


def pod(name: str, **uses: str) -> Json:
    containers = [{"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}, "claims": [{"name": "g"}]}}]
    spec = {"schedulerName": "volcano", "containers": containers, "resourceClaims": [{"name": "g", **uses}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def cluster(*more: Json) -> dict[str, list[Json]]:
    """Return the objects of devices of two nodes with four GPUs each."""
    slices = [
        {
            **API,
            "kind": "ResourceSlice",
            "metadata": {"name": f"{node}-gpus"},
            "spec": {
                "driver": DRIVER,
                "nodeName": node,
                "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
                "devices": [{"name": f"gpu-{at}"} for at in range(4)],
            },
        }
        for node in ("n1", "n2")
    ]
    gpu = {**API, "kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {}}
    every = [*slices, gpu, *more]
    kinds = ("DeviceClass", "DeviceTaintRule", "ResourceSlice", "ResourceClaim", "ResourceClaimTemplate")
    return {kind: [each for each in every if each["kind"] == kind] for kind in kinds}


def scheduler(*, dra: bool = True) -> Scheduler:
    found = scheduler_of((), 1.0)
    found.configure(replace(default_conf(), dra=dra))
    for name in ("n1", "n2"):
        node = NodeFact(name=name, uid=name, allocatable={"cpu": 64000, "memory": 2**38, "pods": 110})
        found.apply(fact("node", name), node, NOW)
    return found


Ask = Callable[..., Fits]


@pytest.fixture
def ask(tmp_path: Path) -> Ask:
    def ask(
        *objects: Json, there: dict[str, list[Json]], count: int = 1, more: int = 0, dra: bool = True, add: int = 0
    ) -> Fits:
        path = tmp_path / "objects.yaml"
        path.write_text(yaml.safe_dump_all(objects))
        files, decides = read_files([str(path)], [], ("volcano",)), scheduler(dra=dra)
        added = change_cluster(decides, ClusterChanges(addition=Addition(add, "n1" if add else "")), 1.0)
        there["ResourceSlice"] += slices_like(there["ResourceSlice"], "n1", added)
        asked = with_resource_claims(files, there, decides, 1.0)
        if not more:
            return fit(decides, asked, count, 0, 1.0)
        return fit(decides, asked, 0, more, 1.0)

    return ask


def devices(found: Fit) -> list[tuple[str, str]]:
    """Return the claims and devices of the placed pods."""
    return [(each.claim, each.id) for pod, placement in found.placed for each in _devices(pod, placement)]


def test_as_many_copies_fit_as_there_are_devices(ask: Ask) -> None:
    there = cluster(template("two", 2), claim("other", 1, "gpu-1"))
    assert ask(pod("a", resourceClaimTemplateName="two"), there=there, more=100).more == 3
    found = ask(pod("a", resourceClaimTemplateName="two"), there=there, count=3)
    given = [each for one in found.asked for each in devices(one)]
    assert len({device for _, device in given}) == 6
    assert f"{DRIVER}/n1/gpu-1" not in {device for _, device in given}
    assert sorted({name for name, _ in given}) == ["a-2-g", "a-3-g", "a-g"]


def test_claims_and_templates_of_the_files_are_used(ask: Ask) -> None:
    there = cluster()
    (found,) = ask(template("three", 3), pod("a", resourceClaimTemplateName="three"), there=there).asked
    assert len(devices(found)) == 3
    users = [pod(name, resourceClaimName="own") for name in "ab"]
    first, second = ask(*users, claim("own", 4), there=there).asked
    assert len(devices(first)) == 4
    assert not devices(second)
    assert first.placed[0][1].node == second.placed[0][1].node


def test_a_claim_of_a_template_replaces_none_of_the_cluster(ask: Ask) -> None:
    """A claim may have the name that others are made from: pod a and name g, or a ResourceClaim a-g."""
    there = cluster(template("one", 1), claim("a-g", 3, "gpu-0", "gpu-1", "gpu-2"))
    assert ask(pod("a", resourceClaimTemplateName="one"), there=there, more=100).more == 5
    users = [pod("a", resourceClaimTemplateName="one"), pod("b", resourceClaimName="a-g")]
    first, second = ask(*users, there=there).asked
    assert len(devices(first)) == 1
    assert (second.placed[0][1].node, second.placed[0][1].feasible) == ("n1", 1), "it has devices of this node"


def test_claims_and_templates_of_files_are_known_in_whatever_order(ask: Ask) -> None:
    users = [pod("a", resourceClaimName="own"), pod("b", resourceClaimTemplateName="one")]
    found = ask(*users, claim("own", 1), template("one", 1), there=cluster()).asked
    assert [len(devices(each)) for each in found] == [1, 1]


def test_nodes_like_another_have_devices_like_it(ask: Ask) -> None:
    wants = template("four", 4), pod("a", resourceClaimTemplateName="four")
    assert ask(*wants, there=cluster(), more=100).more == 2
    assert ask(*wants, there=cluster(), more=100, add=2).more == 4
    there = cluster(claim("used", 1, "gpu-0"))
    found = ask(*wants, there=there, count=3, add=2).asked
    assert {placement.node for each in found for _, placement in each.placed} == {"n2", "n1-added-1", "n1-added-2"}
    given = {device for one in found for _, device in devices(one)}
    assert {f"{DRIVER}/{node}/gpu-3" for node in ("n2", "n1-added-1", "n1-added-2")} <= given


def test_devices_that_select_nodes_are_copied_for_their_own_node(ask: Ask) -> None:
    """A pool of two nodes, with its counters in a slice of their own: a copy has all slices, and the node's devices."""
    there = cluster()
    pool = {"name": "rack", "generation": 1, "resourceSliceCount": 2}
    counters = [{"name": f"card-{node}", "counters": {"all": {"value": "2"}}} for node in ("n1", "n2")]
    rack = [
        {
            "name": f"{node}-{at}",
            "nodeName": node,
            "consumesCounters": [{"counterSet": f"card-{node}", "counters": one}],
        }
        for node in ("n1", "n2")
        for at in range(4)
        for one in ({"all": {"value": "1"}},)
    ]
    specs = (
        {"driver": DRIVER, "pool": pool, "allNodes": True, "sharedCounters": counters},
        {"driver": DRIVER, "pool": pool, "perDeviceNodeSelection": True, "devices": rack},
    )
    there["ResourceSlice"] = [
        {**API, "kind": "ResourceSlice", "metadata": {"name": f"rack-{at}"}, "spec": spec}
        for at, spec in enumerate(specs)
    ]
    wants = template("two", 2), pod("a", resourceClaimTemplateName="two")
    assert ask(*wants, there=there, more=100).more == 2
    assert ask(*wants, there=there, more=100, add=3).more == 5


def test_copies_of_a_pod_whose_template_is_absent_have_the_same_reason(tmp_path: Path) -> None:
    (tmp_path / "pod.yaml").write_text(yaml.safe_dump(pod("a", resourceClaimTemplateName="absent")))
    decides = scheduler()
    files = read_files([str(tmp_path / "pod.yaml")], [], ("volcano",))
    (candidate,) = with_resource_claims(files, cluster(), decides, 1.0)
    (found,) = fit(decides, [candidate.copy(1)], 1, 0, 1.0).asked
    assert "the ResourceClaim of template absent is not created yet" in found.message


def test_an_allocated_claim_decides_the_node(ask: Ask) -> None:
    there = cluster(claim("shared", 1, "gpu-0"))
    (found,) = ask(pod("a", resourceClaimName="shared"), there=there).asked
    assert (found.placed[0][1].node, found.placed[0][1].feasible) == ("n1", 1)


@pytest.mark.parametrize(
    ("uses", "text"),
    [
        ({"resourceClaimTemplateName": "five"}, "0/2 nodes are unavailable: 2 node(s) "),
        ({"resourceClaimName": "absent"}, "ResourceClaim absent does not exist"),
        ({"resourceClaimTemplateName": "absent"}, "the ResourceClaim of template absent is not created yet"),
    ],
)
def test_what_is_missing_is_named(
    ask: Ask, capsys: pytest.CaptureFixture[str], uses: dict[str, str], text: str
) -> None:
    (found,) = ask(pod("a", **uses), there=cluster(template("five", 5))).asked
    assert not found.fits
    assert text in found.message
    warned = (
        "ResourceClaimTemplate default/absent is neither in the cluster nor in the files" in capsys.readouterr().err
    )
    assert warned == ("template absent" in text)


def test_pods_are_refused_where_the_configuration_refuses_them(ask: Ask) -> None:
    there = cluster(template("two", 2))
    (found,) = ask(pod("a", resourceClaimTemplateName="two"), there=there, dra=False).asked
    assert not found.fits
    assert "spec.resourceClaims" in found.message


def test_an_object_that_cannot_be_read_is_named(ask: Ask, capsys: pytest.CaptureFixture[str]) -> None:
    there = cluster(template("two", 2), {**claim("bad", 1), "spec": {"devices": []}})
    (found,) = ask(pod("a", resourceClaimTemplateName="two"), there=there).asked
    assert found.fits
    assert "Warning: ResourceClaim default/bad" in capsys.readouterr().err


@pytest.mark.parametrize("uses", [{"resourceClaimName": "bad"}, {"resourceClaimTemplateName": "bad"}])
def test_a_claim_that_cannot_be_read_is_the_reason(ask: Ask, uses: dict[str, str]) -> None:
    bad = {"spec": {"devices": {"requests": [{"name": "gpus", "exactly": {"deviceClassName": 7}}]}}}
    there = cluster({**claim("bad", 1), **bad}, {**template("bad", 1), "spec": bad})
    (found,) = ask(pod("a", **uses), there=there).asked
    assert not found.fits
    assert "spec.devices.requests[0].exactly.deviceClassName: '7' is not valid: expected" in found.message


async def test_objects_are_read_only_for_pods_with_claims(tmp_path: Path) -> None:
    read: list[str] = []

    class Reader:
        async def objects(self, kind: str) -> list[Json]:
            read.append(kind)
            return []

    path = tmp_path / "pod.json"
    for uses in ([], [{"name": "g", "resourceClaimName": "own"}]):
        obj = pod("a")
        obj["spec"]["resourceClaims"] = uses
        path.write_text(json.dumps(obj))
        assert not read
        await device_objects(Reader(), read_files([str(path)], [], ("volcano",)).candidates)  # type: ignore[arg-type]
    assert read == ["DeviceClass", "DeviceTaintRule", "ResourceSlice", "ResourceClaim", "ResourceClaimTemplate"]


@pytest.mark.parametrize("refused", ["DeviceTaintRule", "ResourceSlice"])
async def test_without_permission_for_taint_rules_alone_there_are_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], refused: str
) -> None:
    class Reader:
        async def objects(self, kind: str) -> list[Json]:
            if kind == refused:
                raise NotAllowedError(f"cannot list {kind}: forbidden")
            return [{"kind": kind}]

    path = tmp_path / "pod.json"
    obj = pod("a")
    obj["spec"]["resourceClaims"] = [{"name": "g", "resourceClaimName": "own"}]
    path.write_text(json.dumps(obj))
    read = device_objects(Reader(), read_files([str(path)], [], ("volcano",)).candidates)  # type: ignore[arg-type]
    if refused == "ResourceSlice":
        with pytest.raises(NotAllowedError):
            await read
        return
    assert [kind for kind, objects in (await read).items() if not objects] == ["DeviceTaintRule"]
    assert "the permission to list devicetaintrules.resource.k8s.io: cannot list" in capsys.readouterr().err
