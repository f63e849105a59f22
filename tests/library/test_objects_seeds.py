"""The manifests of the user guides, as a local cluster would hold them."""

import json
from pathlib import Path

import yaml
from deviceshare.objects import decode_node, decode_pod

SEEDS = Path(__file__).parents[1] / "data" / "seeds"


def manifest(name: str) -> bytes:
    tree = yaml.safe_load((SEEDS / f"{name}.yaml").read_text())
    tree["metadata"].setdefault("uid", f"uid-of-{name}")
    return json.dumps(tree).encode()


def test_the_vgpu_pod_requests_one_card_half_of_its_cores_and_3000_mib():
    fact = decode_pod(manifest("pod-hami-core"))
    assert (fact.ref, fact.scheduler, fact.problems) == ("default/hami-pod", "volcano", ())
    assert fact.ask.containers[0].resources == (
        ("volcano.sh/vgpu-cores", 50),
        ("volcano.sh/vgpu-memory", 3000),
        ("volcano.sh/vgpu-number", 1),
    )
    assert fact.ask.annotation("volcano.sh/vgpu-mode") == "hami-core"


def test_the_pod_with_requests_alone_requests_its_whole_device():
    fact = decode_pod(manifest("pod-gpu-type"))
    assert fact.ask.containers[0].get("nvidia.com/gpu") == 1
    assert fact.problems == ()


def test_the_shared_node_has_eight_cards():
    fact = decode_node(manifest("node-gpu-share-status"))
    assert fact.ready
    assert [card.memory for card in fact.cards] == [11178] * 8
    assert fact.allocatable["ephemeral-storage"] == 123722704 * 1024
    assert fact.problems == ()
