"""What the commands show of ResourceClaims, DeviceClasses, ResourceSlices and their devices, on a local cluster."""

import json
import re
from collections.abc import Iterator

import pytest
import yaml
from support.system import System, running_system

pytestmark = pytest.mark.system
CONF = """
actions: "allocate, backfill"
tiers:
- plugins:
  - name: deviceshare
    arguments:
      deviceshare.ResourceClaimsEnable: "true"
  - name: predicates
"""
DEVICE = "resource.k8s.io/v1"
DRIVER = "gpu.example.com"


def node(name: str) -> list[dict[str, object]]:
    """Return a node with the slice of its four GPUs."""
    amounts = {"cpu": "8", "memory": "32Gi", "pods": "20"}
    status = {"allocatable": amounts, "capacity": amounts, "conditions": [{"type": "Ready", "status": "True"}]}
    spec = {
        "driver": DRIVER,
        "nodeName": name,
        "pool": {"name": name, "generation": 2, "resourceSliceCount": 1},
        "devices": [{"name": f"gpu-{at}"} for at in range(4)],
    }
    return [
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status},
        {"apiVersion": DEVICE, "kind": "ResourceSlice", "metadata": {"name": f"{name}-gpus"}, "spec": spec},
    ]


def asking(count: int) -> dict[str, object]:
    exactly = {"deviceClassName": "gpu", "count": count}
    return {"devices": {"requests": [{"name": "gpus", "exactly": exactly}]}}


def pod(name: str, **claim: str) -> dict[str, object]:
    """Return a pod that uses a claim or a template."""
    spec = {
        "schedulerName": "deviceshare",
        "containers": [{"name": "c", "image": "x", "resources": {"claims": [{"name": "g"}]}}],
        "resourceClaims": [{"name": "g", **claim}],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def template(name: str, count: int) -> dict[str, object]:
    spec = {"metadata": {"labels": {"of": name}}, "spec": asking(count)}
    return {"apiVersion": DEVICE, "kind": "ResourceClaimTemplate", "metadata": {"name": name}, "spec": spec}


OBJECTS = [
    *node("n1"),
    *node("n2"),
    {"apiVersion": DEVICE, "kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {}},
    template("two", 2),
    template("five", 5),
    {"apiVersion": DEVICE, "kind": "ResourceClaim", "metadata": {"name": "shared"}, "spec": asking(1)},
    pod("own", resourceClaimTemplateName="two"),
    pod("large", resourceClaimTemplateName="five"),
    *(pod(f"user-{at}", resourceClaimName="shared") for at in range(2)),
]


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    directory = tmp_path_factory.mktemp("system")
    (directory / "objects").mkdir()
    (directory / "objects" / "all.yaml").write_text(yaml.safe_dump_all(OBJECTS))
    (directory / "conf.yaml").write_text(CONF)
    cluster, conf = f"local:{directory / 'objects'}", str(directory / "conf.yaml")
    with running_system(directory, "--cluster", cluster, "--conf", conf) as system:
        yield system


def test_claims_are_shown_with_their_devices_node_and_pods(system: System) -> None:
    head, *rows = (re.split(r" {2,}", line) for line in system.out("get", "resourceclaims").splitlines())
    assert head == ["NAMESPACE", "NAME", "STATE", "NODE", "PODS", "DEVICES", "AGE"]
    found = {row[4] if row[4] != "<none>" else row[2]: row for row in rows}
    own, shared, large = found["own"], found["user-0, user-1"], found["pending"]
    assert own[2] == shared[2] == "allocated,reserved"
    objects = json.loads(system.out("get", "resourceclaims", "-o", "json"))["items"]
    by_name = {each["metadata"]["name"]: each for each in objects}
    for row in (own, shared):
        results = by_name[row[1]]["status"]["allocation"]["devices"]["results"]
        assert row[5] == ", ".join(f"{DRIVER}/{each['pool']}/{each['device']}" for each in results)
        assert row[3] == results[0]["pool"]
    assert len(own[5].split(", ")) == 2
    assert large[3:6] == ["<none>"] * 3
    wide = system.out("get", "resourceclaim", "shared", "-o", "wide", "--no-headers")
    assert "gpus: 1 × gpu" in wide
    assert system.out("get", "resourceclaims.resource.k8s.io", "shared", "-o", "name") == (
        "resourceclaim.resource.k8s.io/shared\n"
    )


def test_claims_are_chosen_by_labels_and_namespaces(system: System) -> None:
    (of_two,) = system.lines("get", "resourceclaims", "-l", "of=two", "--no-headers")
    assert of_two[4] == "own"
    assert len(system.lines("get", "resourceclaims", "-A", "--no-headers")) == 3
    assert system.command("get", "resourceclaims", "-n", "none").stderr == "No resources found in none namespace.\n"
    assert system.command("get", "resourceclaim", "absent").stderr == (
        'Error from server (NotFound): resourceclaims.resource.k8s.io "absent" not found\n'
    )


def test_claims_and_slices_are_chosen_by_node(system: System) -> None:
    for name in ("n1", "n2"):
        (of_node,) = system.lines("get", "resourceslices", "--node", name, "--no-headers")
        assert of_node[0] == f"{name}-gpus"
    every = system.lines("get", "resourceclaims", "--no-headers")
    found = [system.lines("get", "resourceclaims", "--node", name, "--no-headers") for name in ("n1", "n2")]
    assert [{row[3] for row in rows} - {name} for rows, name in zip(found, ("n1", "n2"), strict=True)] == [set(), set()]
    assert sum(map(len, found)) == sum(row[3] != "<none>" for row in every) == 2
    refused = system.command("get", "deviceclasses", "--node", "n1")
    assert "selects pods, devices, claims, resourceclaims, resourceslices, not deviceclasses" in refused.stderr


def test_classes_and_slices_have_the_columns_of_kubectl(system: System) -> None:
    assert system.lines("get", "deviceclasses")[0] == ["NAME", "AGE"]
    assert [row[0] for row in system.lines("get", "deviceclass", "--no-headers")] == ["gpu"]
    head, *rows = system.lines("get", "resourceslices", "-o", "wide")
    assert head == ["NAME", "NODE", "DRIVER", "POOL", "DEVICES", "GENERATION", "SLICES", "AGE"]
    assert [row[:7] for row in rows] == [[f"{name}-gpus", name, DRIVER, name, "4", "2", "1"] for name in ("n1", "n2")]
    assert "gpu-3" in system.out("describe", "resourceslice", "n1-gpus")
    assert ["Kind:", "DeviceClass"] in system.lines("describe", "deviceclass", "gpu")


def in_use(system: System) -> list[str]:
    """Return the devices that claims have."""
    claims = json.loads(system.out("get", "resourceclaims", "-o", "json"))["items"]
    allocations = [each["status"]["allocation"] for each in claims if (each.get("status") or {}).get("allocation")]
    return [f"{each['pool']}/{each['device']}" for of in allocations for each in of["devices"]["results"]]


def test_pods_are_shown_with_the_devices_of_their_claims(system: System) -> None:
    (claim,) = system.lines("get", "resourceclaims", "-l", "of=two", "--no-headers")
    devices = claim[5:-1]
    (row,) = system.lines("get", "pod", "own", "--no-headers")
    assert row[5:] == [claim[3], *devices]
    result = (system.directory / "up.out").read_text()
    assert re.search(rf"own +{claim[3]} +{' '.join(devices)}", result)
    lines = system.out("explain", "pod", "own").splitlines()
    assert f"  ResourceClaim {claim[1]}, of the template two" in lines
    for device in devices:
        assert f"  ResourceClaim {claim[1]}: {device.removesuffix(',')}" in lines
    shown = json.loads(system.out("explain", "pod", "own", "-o", "json"))["pod"]
    assert shown["resource_claims"] == [claim[1]]
    assert [each["claim"] for each in shown["devices"]] == [claim[1]] * 2


def test_a_claim_is_described_with_the_pods_that_use_it(system: System) -> None:
    lines = system.out("describe", "resourceclaim", "shared").splitlines()
    users = lines[lines.index("Used By:") + 1 :][:3]
    assert [line.split()[:2] for line in users] == [["Pod", "Status"], ["user-0", "Bound"], ["user-1", "Bound"]]
    (large,) = system.lines("get", "resourceclaims", "-l", "of=five", "--no-headers")
    described = system.out("describe", "resourceclaim", large[1])
    assert re.search(r"large +Pending +<none> +0/2 nodes are unavailable", described)


def test_devices_of_claims_are_in_top_by_class(system: System) -> None:
    head, row = system.lines("top")
    assert head == ["DEVICECLASS", "ALLOCATED", "NODES", "DRIVER", "DEVICES", "OF", "DRIVER"]
    assert (row[:2], row[3:]) == (["gpu", "3"], [DRIVER, "3/8"])
    assert system.out("top", "--model", "a100") == "\n"
    (of_class,) = json.loads(system.out("top", "-o", "json"))["device_classes"]
    assert (of_class["device_class"], of_class["driver_devices"]) == ("gpu", 8)


def test_fit_places_pods_with_claims_of_templates(system: System) -> None:
    """Of eight devices three are in use."""
    used = in_use(system)
    left = [4 - sum(each.startswith(f"{name}/") for each in used) for name in ("n1", "n2")]
    more = yaml.safe_dump(pod("more", resourceClaimTemplateName="two"))
    found = json.loads(system.command("fit", "-f", "-", "-o", "json", stdin=more).stdout)
    assert (found["fits"], found["more"]) == (True, sum(each // 2 for each in left) - 1)
    ids = [each["id"] for each in found["placed"][0]["devices"]]
    assert len(set(ids)) == 2
    assert not {each.removeprefix(f"{DRIVER}/") for each in ids}.intersection(used)


@pytest.mark.parametrize(
    "arguments",
    [
        ("top",),
        ("explain", "pod", "large", "-o", "json"),
        ("get", "resourceclaims", "-o", "yaml"),
        ("get", "deviceclasses", "-o", "json"),
        ("get", "resourceslices", "-o", "name"),
        ("describe", "resourceclaim", "shared"),
    ],
    ids=" ".join,
)
def test_a_snapshot_gives_the_answers_of_the_system(system: System, arguments: tuple[str, ...]) -> None:
    live = system.out(*arguments)
    assert live
    assert system.out(*arguments, "--snapshot", system.snapshot) == live
