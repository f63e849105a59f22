"""``deviceshare lab bench curve``: a run for each size, and the plot."""

import json
import xml.etree.ElementTree as ET

from deviceshare_cli.main import app
from deviceshare_lab.bench.allocator.curve import FAMILIES, numbers
from typer.testing import CliRunner


def test_every_family_is_measured_at_every_size_and_plotted(tmp_path):
    sizes = ["--nodes", "2", "--pod-classes", "4", "--pods", "20", "--runs", "2"]
    result = CliRunner().invoke(app, ["lab", "bench", "curve", *sizes, "--plots", str(tmp_path), "--json"])
    assert result.stderr.count("2 nodes, 4 pod classes, run 2 of 2") == len(FAMILIES)
    points = json.loads(result.stdout)
    assert [point["family"] for point in points] == list(FAMILIES)
    assert all(
        point["nodes"] == 2 and point["pod_classes"] == 4 and point["pods"] == 20 and point["pods_per_second"] > 0
        for point in points
    )
    (drawn,) = tmp_path.iterdir()
    assert drawn.name == "allocator-4-classes.svg"
    texts = {each.text for each in ET.parse(drawn).iter() if each.tag.endswith("text")}
    assert texts >= {*FAMILIES, "nodes of 8 cards", "µs"}


def test_sizes_are_sorted_and_unique():
    assert numbers("--nodes", "5000, 1000,5000") == [1000, 5000]


def test_an_invalid_size_is_an_error():
    result = CliRunner().invoke(app, ["lab", "bench", "curve", "--nodes", "10,many"])
    assert result.exit_code == 1
    assert (
        str(result.exception) == "--nodes: '10,many' is not valid: expected whole numbers above 0, separated by commas"
    )
