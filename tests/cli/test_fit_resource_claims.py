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
from deviceshare_cli.reading.state import scheduler_of
from deviceshare_cli.whatif.fit import _devices
from deviceshare_cli.whatif.fitting import Fit, Fits, fit
from deviceshare_cli.whatif.manifests import candidates
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
    kinds = ("DeviceClass", "ResourceSlice", "ResourceClaim", "ResourceClaimTemplate")
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
    def ask(*objects: Json, there: dict[str, list[Json]], count: int = 1, more: int = 0, dra: bool = True) -> Fits:
        path = tmp_path / "objects.yaml"
        path.write_text(yaml.safe_dump_all(objects))
        asked, decides = candidates([str(path)], [], ("volcano",)), scheduler(dra=dra)
        asked = with_resource_claims(asked, there, decides, 1.0)
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
    assert sorted({name for name, _ in given}) == ["a-g", "a-g-2", "a-g-3"]


def test_claims_and_templates_of_the_files_are_used(ask: Ask) -> None:
    there = cluster()
    (found,) = ask(template("three", 3), pod("a", resourceClaimTemplateName="three"), there=there).asked
    assert len(devices(found)) == 3
    users = [pod(name, resourceClaimName="own") for name in "ab"]
    first, second = ask(*users, claim("own", 4), there=there).asked
    assert len(devices(first)) == 4
    assert not devices(second)
    assert first.placed[0][1].node == second.placed[0][1].node


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
        await device_objects(Reader(), candidates([str(path)], [], ("volcano",)))  # type: ignore[arg-type]
    assert read == ["DeviceClass", "ResourceSlice", "ResourceClaim", "ResourceClaimTemplate"]
