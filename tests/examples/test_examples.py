"""Everything under examples/ can be used as it stands."""

import json
from pathlib import Path

import pytest
from deviceshare.conf.scheduler import parse_conf
from deviceshare.objects import decode_node, decode_pod
from deviceshare_cluster.local import read_manifests
from deviceshare_cluster.local.admission import Admitted, Priorities, admit

EXAMPLES = Path(__file__).parents[2] / "examples"
CONFIGURATIONS = sorted((EXAMPLES / "configurations").glob("*"))
MANIFESTS = read_manifests(EXAMPLES)


def admitted(manifest) -> Admitted:
    return admit(manifest.object, uid="0c0ffee0-uid", now="2026-02-03T08:00:00Z", priorities=Priorities())


def test_every_file_is_read_and_holds_one_object():
    assert MANIFESTS.problems == []
    files = [manifest.source.partition(",")[0] for manifest in MANIFESTS.manifests]
    assert sorted(files) == sorted(str(file.relative_to(EXAMPLES)) for file in EXAMPLES.rglob("*.yaml"))


def test_no_object_stands_twice():
    names = [(m.object["kind"], m.object["metadata"]["name"]) for m in MANIFESTS.manifests]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("manifest", MANIFESTS.manifests, ids=lambda manifest: manifest.source)
def test_the_api_server_takes_it(manifest):
    answer = admitted(manifest)
    # The published pod that only requests its GPU is the one that has to be warned of.
    assert bool(answer.warnings) == manifest.source.startswith("workloads/specific-gpu-pod.yaml")


@pytest.mark.parametrize(
    ("name", "cards", "memory", "mode"),
    [
        ("hami-a100", 8, 40960, "hami-core"),
        ("hami-v100", 8, 32768, "hami-core"),
        ("share-1", 8, 11178, "gpu-share"),
        ("share-2", 8, 11178, "gpu-share"),
        ("plain", 0, 0, ""),
    ],
)
def test_the_nodes_register_their_cards(name, cards, memory, mode):
    (manifest,) = (
        m for m in MANIFESTS.manifests if m.object["kind"] == "Node" and m.object["metadata"]["name"] == name
    )
    node = decode_node(json.dumps(admitted(manifest).object).encode())
    assert (node.problems, node.ready) == ((), True)
    assert [(card.memory, card.mode, card.healthy) for card in node.cards] == [(memory, mode, True)] * cards


def test_no_card_is_registered_by_two_nodes():
    nodes = [decode_node(json.dumps(m.object).encode()) for m in MANIFESTS.manifests if m.object["kind"] == "Node"]
    uuids = [card.id for node in nodes for card in node.cards if card.mode == "hami-core"]
    assert len(set(uuids)) == len(uuids) == 16


def test_the_pods_can_be_read_without_a_problem():
    pods = [m for m in MANIFESTS.manifests if m.object["kind"] == "Pod"]
    facts = [decode_pod(json.dumps(admitted(pod).object).encode()) for pod in pods]
    assert {fact.name: fact.problems for fact in facts if fact.problems} == {}
    assert {fact.scheduler for fact in facts} == {"volcano"}


def test_the_queues_that_the_jobs_name_are_there():
    named = {m.object["spec"]["queue"] for m in MANIFESTS.manifests if m.object["kind"] == "Job"}
    queues = {m.object["metadata"]["name"] for m in MANIFESTS.manifests if m.object["kind"] == "Queue"}
    assert named <= queues | {"default"}


def test_the_configuration_of_make_run_turns_on_every_family_of_this_version():
    conf = parse_conf((EXAMPLES / "volcano-scheduler.conf").read_text(), "File volcano-scheduler.conf")
    assert (conf.policy, conf.weight, conf.warnings) == ("binpack", 10, ())
    assert conf.families == {
        "deviceshare.GPUSharingEnable",
        "deviceshare.GPUNumberEnable",
        "deviceshare.VGPUEnable",
    }


@pytest.mark.parametrize("path", CONFIGURATIONS, ids=lambda path: path.name)
def test_each_configuration_turns_a_family_on(path):
    conf = parse_conf(path.read_text(), f"File {path.name}")
    assert conf.families
    # What a guide leaves out (...) is all that there is to say.
    assert all("..." in warning for warning in conf.warnings), conf.warnings


def test_the_policies_of_the_configurations_are_as_their_names_say():
    policies = {path.stem: parse_conf(path.read_text(), path.name).policy for path in CONFIGURATIONS}
    assert policies["gpu-sharing-binpack"] == policies["vgpu"] == policies["vgpu-configmap"] == "binpack"
    assert policies["gpu-sharing-spread"] == "spread"
