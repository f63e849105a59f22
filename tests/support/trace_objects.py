"""The nodes and pods of a trace as Kubernetes objects, and a placement core that decides them one by one."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from deviceshare.model import ConfigFact
from deviceshare.objects import decode_node, decode_pod
from deviceshare_lab.traces import Trace, TraceNode, TracePod
from support.played import Played

MODEL = "nvidia.com/gpu.product"
_CONF = """
actions: "allocate, backfill"
tiers:
- plugins:
  - name: predicates
  - name: deviceshare
    arguments:
      deviceshare.VGPUEnable: true
      deviceshare.SchedulePolicy: fragmentation
      deviceshare.ScheduleWeight: 10
      deviceshare.StarvationSeconds: 0
"""
"""No nodes are kept free for pods that wait: in the simulator a pod that does not fit has failed."""


def node_object(rank: int, node: TraceNode) -> dict[str, Any]:
    """Return a node whose name has its rank, with vGPU cards of 1000 MiB."""
    name = f"node-{rank:06}"
    cards = "".join(f"{name}-{at},1000,1000,{node.model},true,hami-core:" for at in range(node.cards))
    resources = {"cpu": f"{node.cpu}m", "memory": f"{node.memory}Mi", "pods": "1001"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "uid": name,
            "labels": {MODEL: node.model},
            "annotations": {"volcano.sh/node-vgpu-register": cards},
        },
        "status": {
            "capacity": resources,
            "allocatable": resources,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def pod_object(number: int, pod: TracePod, *, by_annotation: bool) -> dict[str, Any]:
    """Return a pod; it names the models that it accepts in an annotation or in its node affinity."""
    resources: dict[str, str] = {"cpu": f"{pod.cpu}m", "memory": f"{pod.memory}Mi"}
    limits = {}
    if pod.cards:
        limits = {"volcano.sh/vgpu-number": str(pod.cards), "volcano.sh/vgpu-memory": str(pod.amount)}
    models = [model for model in pod.models.split("|") if model and pod.cards]
    metadata: dict[str, Any] = {"name": f"pod-{number:05}", "namespace": "default", "uid": f"uid-{number}"}
    spec: dict[str, Any] = {
        "schedulerName": "volcano",
        "containers": [{"name": "main", "resources": {"requests": resources, "limits": limits}}],
    }
    if models and by_annotation:
        metadata["annotations"] = {"nvidia.com/use-gputype": ",".join(models)}
    elif models:
        term = {"matchExpressions": [{"key": MODEL, "operator": "In", "values": models}]}
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
        spec["affinity"] = {"nodeAffinity": required}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def placed(
    trace: Trace, ranks: Sequence[int], pods: Sequence[int], *, by_annotation: bool
) -> Iterator[tuple[int, int]]:
    """Yield the rank of the node of each arriving pod, and the first of its cards; -1 for none."""
    played = Played(empty=True, synced=False)
    played.put(ConfigFact(name="scheduler", text=_CONF))
    for rank, node in zip(ranks, trace.nodes, strict=True):
        played.put(decode_node(json.dumps(node_object(rank, node)).encode()))
    played.sync()
    played.caught_up()
    for number, at in enumerate(pods):
        obj = pod_object(number, trace.pods[at], by_annotation=by_annotation)
        played.put(decode_pod(json.dumps(obj).encode()))
        out = played.tick()
        found = [
            (ledger.node, claim) for ledger in out.ledgers for claim in ledger.claims if claim.uid == f"uid-{number}"
        ]
        if not found:
            yield -1, -1
            continue
        ((node_name, claim),) = found
        cards = [device.index for grant in claim.grants for device in grant.devices]
        yield int(node_name.removeprefix("node-")), cards[0] if cards else -1
        played.written(out)
