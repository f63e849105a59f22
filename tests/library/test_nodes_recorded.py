"""Nodes as Volcano sees them: which of them a pod may have and what they are worth, on recorded cases."""

import gzip
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from deviceshare.allocation import Allocator
from deviceshare.conf import SchedulerConf, parse_conf
from deviceshare.model import NodeFact, PodFact
from deviceshare.objects import decode_node, decode_pod
from support.builders import weighted_scores

RECORDED = Path(__file__).parents[1] / "data" / "scores" / "nodes.jsonl.gz"
CASES = [json.loads(line) for line in gzip.decompress(RECORDED.read_bytes()).splitlines()]
REASONS = {
    "node(s) had untolerated taint(s)": "node(s) had untolerated taint",
    "node(s) pod number exceeded": "Too many pods",
    "Insufficient pods": "Too many pods",
}
"""Volcano's words and ours, where they differ."""


def conf_of(case: dict[str, Any]) -> SchedulerConf:
    plugins = [*case["plugins"], {"name": "deviceshare", "arguments": {"deviceshare.VGPUEnable": True}}]
    return parse_conf(json.dumps(plugins), "File x")


def scene(conf: SchedulerConf, nodes: Sequence[NodeFact], pods: Sequence[PodFact]) -> Allocator:
    allocator = Allocator(conf)
    for node in nodes:
        allocator.set_node(node)
    for pod in pods:
        allocator.hold(pod.node, pod.uid, (), allocator.amounts(pod.ask), ports=pod.ask.host_ports)
    return allocator


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_nodes_are_scored_and_refused_as_volcano_does(case) -> None:
    conf, answer = conf_of(case), case["answer"]
    nodes = [decode_node(msgspec.json.encode(each)) for each in case["nodes"]]
    *pods, asking = (decode_pod(msgspec.json.encode(each)) for each in (*case["pods"], case["pod"]))
    assert not asking.problems
    assert weighted_scores(scene(conf, nodes, pods), asking.ask) == answer["scores"].get("total", {})
    for node in nodes:
        if not answer["fits"][node.name]:
            refusals = scene(conf, [node], [pod for pod in pods if pod.node == node.name]).why_not(asking.ask).refusals
            ours = {re.split(", which|, of which| {", refusal.text)[0] for refusal in refusals}
            # Volcano stops at the first rule that no other pod can change.
            assert ours >= {REASONS.get(reason, reason) for reason in answer["reasons"][node.name]}
