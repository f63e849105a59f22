"""Nodes as Volcano sees them: which of them a pod may have and what they are worth, on recorded cases."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from deviceshare.allocator import Allocator
from deviceshare.conf.scheduler import parse_conf
from deviceshare.objects import decode_node, decode_pod

RECORDED = Path(__file__).parents[1] / "data" / "scores" / "nodes.jsonl.gz"
CASES = [json.loads(line) for line in gzip.decompress(RECORDED.read_bytes()).splitlines()]
REASONS = {
    "node(s) didn't match Pod's node affinity/selector": "node(s) didn't match Pod's node affinity/selector",
    "node(s) had untolerated taint(s)": "node(s) had untolerated taint",
    "node(s) pod number exceeded": "Too many pods",
    "Insufficient pods": "Too many pods",
}
"""Volcano's words and ours, where they differ."""


def raw(entity: dict[str, Any]) -> bytes:
    return json.dumps(entity).encode()


def scene(case: dict[str, Any]) -> Allocator:
    plugins = [*case["plugins"], {"name": "deviceshare", "arguments": {"deviceshare.VGPUEnable": True}}]
    allocator = Allocator(parse_conf(json.dumps(plugins), "File x"))
    for node in case["nodes"]:
        allocator.set_node(decode_node(raw(node)))
    for pod in map(decode_pod, map(raw, case["pods"])):
        ports, counted = allocator.beside(pod.ask)
        allocator.hold(pod.node, pod.uid, (), allocator.amounts(pod.ask), ports=ports, counted=counted)
    return allocator


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_nodes_are_scored_and_refused_as_volcano_does(case) -> None:
    allocator, pod, answer = scene(case), decode_pod(raw(case["pod"])), case["answer"]
    assert not pod.problems
    assert allocator.worths(pod.ask) == answer["scores"].get("total", {})
    for name in [name for name, fits in answer["fits"].items() if not fits]:
        alone = scene({**case, "nodes": [node for node in case["nodes"] if node["metadata"]["name"] == name]})
        ours = {refusal.text.partition(", which")[0].partition(" {")[0] for refusal in alone.why_not(pod.ask).refusals}
        # Volcano stops at the first rule that no other pod can change.
        assert ours >= {REASONS.get(reason, reason) for reason in answer["reasons"][name]}
