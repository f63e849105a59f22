"""Answers of Kubernetes' allocator of devices, replayed."""

import gzip
import json
from pathlib import Path

import pytest
from deviceshare_lab.conformance.command import conformance
from deviceshare_lab.conformance.devices.command import summarize

# dra-changed has the answers of k8s.io/dynamic-resource-allocation 0.37.2 (experimental) for the random cases with
# other features, numbers, generations and policies, also contradictory ones; nodes with errors are left out.
# dra-generated has its answers for generated clusters that combine all features.
DATA = Path(__file__).parents[1] / "data" / "dra"


@pytest.mark.parametrize(
    ("file", "cases", "refused"),
    [("upstream", 279, 5), ("random", 246, 0), ("changed", 120, 0), ("generated", 150, 0)],
)
def test_devices_are_those_that_kubernetes_gives(file: str, cases: int, refused: int) -> None:
    summary = summarize([DATA / f"dra-{file}.jsonl.gz"])
    assert (summary.cases, summary.refused, summary.failures) == (cases, refused, [])


def test_another_device_is_a_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with gzip.open(DATA / "dra-upstream.jsonl.gz", "rt") as file:
        recorded = json.loads(file.readline())
    recorded["answer"]["nodes"]["node-1"]["allocations"][0]["devices"]["results"][0]["device"] = "device-9"
    path = tmp_path / "changed.jsonl"
    path.write_text(json.dumps(recorded))
    assert conformance([path]) == 1
    assert "0 identical, 0 refused by name, 1 failed" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("tag", "of_result"),
    [("config", False), ("nodeSelector", False), ("tolerations", True), ("bindingConditions", True)],
)
def test_another_allocation_of_the_same_devices_is_a_failure(tmp_path: Path, tag: str, of_result: bool) -> None:
    """Remove a part of the first recorded allocation that has it."""
    with gzip.open(DATA / "dra-upstream.jsonl.gz", "rt") as file:
        for line in file:
            recorded = json.loads(line)
            given = [each for node in recorded["answer"]["nodes"].values() for each in node.get("allocations") or ()]
            parts = [each["devices"] if tag == "config" else each for each in given]
            if of_result:
                parts = [result for each in given for result in each["devices"].get("results") or ()]
            if any(each.pop(tag, None) for each in parts):
                break
    path = tmp_path / "changed.jsonl"
    path.write_text(json.dumps(recorded))
    assert len(summarize([path]).failures) == 1
