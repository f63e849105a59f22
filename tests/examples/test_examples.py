"""All files of examples/ are valid and consistent with their page."""

import json
import re
from fnmatch import fnmatch
from pathlib import Path

import pytest
from deviceshare.model import NodeFact
from deviceshare.objects import decode_pod
from deviceshare_localcluster import read_manifests
from deviceshare_localcluster.admission import Admitted, Priorities, admit, identify
from support.example_cluster import ExampleCluster

EXAMPLES = Path(__file__).parents[2] / "examples"
MANIFESTS = read_manifests(EXAMPLES)


def admitted(manifest) -> Admitted:
    return admit(manifest.object, uid="0c0ffee0-uid", now="2026-02-03T08:00:00Z", priorities=Priorities())


def test_every_file_is_read_and_holds_one_object():
    assert MANIFESTS.problems == []
    files = [manifest.origin.name.removeprefix("File ") for manifest in MANIFESTS.manifests]
    arrays = [str(file.relative_to(EXAMPLES)) for file in EXAMPLES.rglob("*.json")]
    expected = [str(file.relative_to(EXAMPLES)) for file in EXAMPLES.rglob("*.yaml")]
    assert sorted(file for file in files if file not in arrays) == sorted(expected)
    assert set(arrays) < set(files)


def test_no_object_is_defined_twice():
    names = [identify(manifest.object) for manifest in MANIFESTS.manifests]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("manifest", MANIFESTS.manifests, ids=lambda manifest: manifest.origin.locate(""))
def test_the_api_server_accepts_it(manifest):
    answer = admitted(manifest)
    # Only the published pod with a request and no limit causes a warning, and the Job with a policy.
    warned = ("File workloads/specific-gpu-pod.yaml", "File workloads/ascend-mindcluster-job.yaml")
    assert bool(answer.warnings) == manifest.origin.name.startswith(warned)


@pytest.mark.parametrize(
    ("name", "cards", "memory", "mode"),
    [
        ("hami-a100", 8, 40960, "hami-core"),
        ("hami-v100", 8, 32768, "hami-core"),
        ("vgpu-1080ti", 8, 11178, "hami-core"),
        ("mig-a100", 4, 40960, "mig"),
        ("mig-a30", 2, 24576, "mig"),
        ("mig-h100", 2, 81559, "mig"),
        ("mps-t4", 4, 15360, "mps"),
        ("share-1", 8, 11178, "gpu-share"),
        ("share-2", 8, 11178, "gpu-share"),
        ("share-16g", 1, 16384, "gpu-share"),
        ("volcano-control-plane", 8, 11178, "gpu-share"),
        ("npu-310p", 16, 0, "mindcluster"),
        ("gpu-a100-1", 0, 0, ""),
        ("plain", 0, 0, ""),
    ],
)
def test_the_nodes_register_their_cards(name, cards, memory, mode):
    node = nodes()[name]
    assert (node.problems, node.ready) == ((), True)
    assert [(card.memory, card.mode, card.healthy) for card in node.cards] == [(memory, mode, True)] * cards


def nodes() -> dict[str, NodeFact]:
    return ExampleCluster("volcano-scheduler.conf").nodes


def test_only_the_node_that_shows_a_problem_has_one():
    wrong = {name: [problem.field for problem in node.problems] for name, node in nodes().items() if node.problems}
    assert wrong == {"vgpu-register-of-another-version": ["metadata.annotations[volcano.sh/node-vgpu-register] card 0"]}


def test_no_card_is_registered_by_two_nodes():
    ids = [card.id for node in nodes().values() for card in node.cards if card.id.startswith("GPU-")]
    assert len(set(ids)) == len(ids) > 30


def test_the_pods_can_be_read_without_a_problem():
    pods = [m for m in MANIFESTS.manifests if m.object["kind"] == "Pod"]
    facts = [decode_pod(json.dumps(admitted(pod).object).encode()) for pod in pods]
    assert {fact.name: fact.problems for fact in facts if fact.problems} == {}
    assert {fact.scheduler for fact in facts} == {"volcano"}


def test_the_queues_that_the_jobs_name_are_there():
    named = {
        m.object["spec"]["queue"] for m in MANIFESTS.manifests if m.object["apiVersion"].startswith("batch.volcano.sh")
    }
    queues = {m.object["metadata"]["name"] for m in MANIFESTS.manifests if m.object["kind"] == "Queue"}
    assert named <= queues | {"default"}


def test_the_page_names_every_example_and_no_other():
    page = (EXAMPLES / "README.md").read_text()
    named = [Path(name).name for name in re.findall(r"`([^`\s]+\.(?:yaml|conf|txt))`", page)]
    patterns = {
        each for name in named for each in ([name.replace("{a,b,c}", x) for x in "abc"] if "{" in name else [name])
    }
    files = {file.name for file in EXAMPLES.rglob("*") if file.suffix in (".yaml", ".conf", ".txt")}
    machines = {file.name for part in ("nodes", "queues") for file in (EXAMPLES / part).iterdir()}
    assert {name for name in files - machines if not any(fnmatch(name, pattern) for pattern in patterns)} == set()
    assert {pattern for pattern in patterns if not any(fnmatch(name, pattern) for name in files)} == set()
