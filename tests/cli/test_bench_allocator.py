"""`deviceshare lab bench allocator`: workload files are placed as by Volcano, or refused in one line."""

import csv
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from deviceshare.policies import POLICIES
from deviceshare_cli.main import app
from deviceshare_lab.bench.allocator.generated import FAMILIES
from typer.testing import CliRunner

DATA = Path(__file__).parents[1] / "data"
NAMES = sorted(path.name.removesuffix(".json.gz") for path in (DATA / "workloads").glob("*.json.gz"))
SMALL: dict[str, Any] = {
    "family": "hami-core",
    "nodes": 2,
    "devices_per_node": 2,
    "device_type": "NVIDIA-NVIDIA A30",
    "device_memory": 24576,
    "device_count": 4,
    "device_cores": 100,
    "node_format": "node-%d",
    "uuid_format": "GPU-%d-%d",
    "policy": "binpack",
    "existing": [{"node": "node-1", "name": "old", "value": "GPU-1-0,NVIDIA,1000,0:"}],
    "pods": [{"name": "new", "limits": {"volcano.sh/vgpu-memory": "1000"}}, {"name": "none", "limits": {}}],
}


def place(directory: Path, workload: bytes) -> tuple[str, str]:
    """Return the placements and the error."""
    (directory / "configs").symlink_to(DATA / "golden" / "configs")
    file, placements = directory / "workload.json", directory / "placements.csv"
    file.write_bytes(workload)
    done = CliRunner().invoke(
        app, ["lab", "bench", "allocator", "--workload", str(file), "--placements", str(placements)]
    )
    return placements.read_text() if placements.exists() else "", str(done.exception or "")


@pytest.mark.parametrize("name", NAMES)
def test_placements_are_those_of_volcano(name: str, tmp_path: Path) -> None:
    workload, expected = (
        gzip.decompress((DATA / "workloads" / f"{name}.{kind}.gz").read_bytes()) for kind in ("json", "placements.csv")
    )
    placed, error = place(tmp_path, workload)
    assert not error
    assert placed.splitlines() == expected.decode().splitlines()


@pytest.mark.parametrize("family", FAMILIES)
def test_placements_of_each_family_have_annotations(family: str, tmp_path: Path) -> None:
    placements = tmp_path / "placements.csv"
    command = ["lab", "bench", "allocator", "--family", family, "--nodes", "5", "--pods", "20"]
    done = CliRunner().invoke(app, [*command, "--placements", str(placements)])
    assert done.exit_code == 0, done.exception
    rows = list(csv.reader(placements.read_text().splitlines()))
    assert len(rows) == 20
    assert any(annotation for _, _, annotation in rows)


def test_a_pod_without_devices_gets_a_node(tmp_path: Path) -> None:
    placed, _ = place(tmp_path, json.dumps(SMALL).encode())
    assert placed == 'new,node-1,"GPU-1-0,NVIDIA,1000,0:"\nnone,node-0,\n'


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"nodes": -1}, "nodes: '-1' is not valid: expected a number from 1 to 100000"),
        ({"device_memory": "8"}, 'device_memory: "8" is not valid: Expected `int`, got `str`'),
        ({"family": "vgpu"}, "family 'vgpu': expected one of hami-core, mig, ascend"),
        ({"config": "none-such"}, "config 'none-such': no such file: "),
        (
            {"policy": "binpak"},
            f"policy: 'binpak' is not valid: expected one of {', '.join(POLICIES)}, nothing",
        ),
        ({"node_format": "node"}, "node_format: 'node' is not valid: expected a printf pattern"),
        ({"uuid_format": "GPU-%d"}, "uuid_format: 'GPU-%d' is not valid: expected a printf pattern"),
        ({"uuid_format": "GPU,%d,%d"}, "nodes: node-0: metadata.annotations[volcano.sh/node-vgpu-register] card 0: "),
        ({"existing": [{"node": "node-2", "name": "a", "value": ""}]}, "existing[0].node: 'node-2' is not valid: "),
        ({"existing": [{"node": "node-1", "name": "a", "value": ""}]}, "existing[0].value: '' is not valid: "),
        (
            {"existing": [{"node": "node-1", "name": "a", "value": "GPU-7-0,NVIDIA,1,0:"}]},
            "existing[0].value: 'GPU-7-0,NVIDIA,1,0:' is not valid: expected the family's device annotation",
        ),
        ({"pods": [{"name": "a"}]}, "pods[0]: Object missing required field `limits`"),
        ({"pods": [{"name": "a", "limits": {}}] * 2}, "pods[1].name: 'a' is not valid: expected a unique name"),
        (
            {"pods": [{"name": "a", "limits": {"volcano.sh/vgpu-number": "-1"}}]},
            "pods[0]: spec.containers[main].resources.limits[volcano.sh/vgpu-number]: '-1' is not valid: expected ",
        ),
        (
            {"family": "ascend", "device_type": "Ascend910B3", "config": "ascend-plugin", "nodes": 2}
            | {"existing": [{"node": "node-0", "name": "a", "value": "GPU-0-0,x"}]},
            "existing[0].value: 'GPU-0-0,x' is not valid: expected ",
        ),
    ],
)
def test_an_error_has_the_field_its_value_and_the_expected_value(
    changes: dict[str, Any], expected: str, tmp_path: Path
) -> None:
    placed, error = place(tmp_path, json.dumps(SMALL | changes).encode())
    assert not placed
    assert error.startswith(f"{tmp_path / 'workload.json'}: {expected}")
    assert "\n" not in error


def test_a_missing_field_is_named(tmp_path: Path) -> None:
    _, error = place(tmp_path, json.dumps({key: SMALL[key] for key in SMALL if key != "nodes"}).encode())
    assert error.endswith("Object missing required field `nodes`")
