"""Pods whose constraints about topology are not evaluated wait, and say which field it is."""

import json

from deviceshare.model import QueueFact
from deviceshare.objects import decode_pod, decode_podgroup
from support.builders import card, node, pod, vgpu
from support.played import Played


def started():
    played = Played(node("a", [card(0, memory=100)]))
    played.put(QueueFact(name="default"))
    return played


def group(**topology):
    status = {"phase": "Inqueue"}
    text = {"metadata": {"name": "g", "namespace": "ns", "uid": "g"}, "spec": topology, "status": status}
    return decode_podgroup(json.dumps(text).encode())


def test_a_gang_with_hard_network_topology_waits_and_one_with_soft_is_placed():
    played = started()
    played.put(group(networkTopology={"mode": "hard", "highestTierAllowed": 1}), pod("one", vgpu(1, 10), gang="g"))
    out = played.tick()
    assert not out.claims
    (explanation,) = out.explanations
    assert explanation.message.startswith("PodGroup ns/g: spec.networkTopology.mode: 'hard' is not valid")
    played.put(group(networkTopology={"mode": "soft"}))
    assert [claim.name for claim in played.tick().claims] == ["one"]


def test_a_pod_with_a_numa_policy_waits():
    played = started()
    limits = {"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory": 10}
    annotations = {"volcano.sh/numa-topology-policy": "single-numa-node"}
    text = {
        "metadata": {"name": "one", "namespace": "ns", "uid": "one", "annotations": annotations},
        "spec": {"schedulerName": "volcano", "containers": [{"name": "c", "resources": {"limits": limits}}]},
    }
    played.put(decode_pod(json.dumps(text).encode()))
    out = played.tick()
    assert not out.claims
    (explanation,) = out.explanations
    assert "numa-topology-policy]: 'single-numa-node' is not valid" in explanation.message
    del annotations["volcano.sh/numa-topology-policy"]
    played.put(decode_pod(json.dumps(text).encode()))
    assert [claim.name for claim in played.tick().claims] == ["one"]
