"""What the binder keeps of facts: what binding a pod depends on, and not how its node was chosen."""

from typing import Any

from deviceshare.model import ContainerRequest, PodFact, PodRequest
from deviceshare.objects import decode_pod
from msgspec.json import encode
from support.binder_scene import seen


def decoded(**spec: Any) -> PodFact:
    limits = {"volcano.sh/vgpu-number": "1"}
    metadata = {"name": "pod-u1", "uid": "u1", "annotations": {"volcano.sh/vgpu-mode": "mig"}}
    containers = [{"name": "main", "resources": {"limits": limits}}]
    return decode_pod(encode({"metadata": metadata, "spec": {"containers": containers, **spec}}))


def test_rules_for_the_choice_of_a_node_are_not_kept() -> None:
    required = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]}
    near = [{"topologyKey": "zone", "labelSelector": {}}]
    fact = decoded(
        nodeSelector={"disk": "ssd"},
        affinity={
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required},
            "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": near},
        },
        tolerations=[{"key": "team"}],
    )
    assert fact.ask.node_terms
    assert fact.ask.topology is not None
    plain = decoded(tolerations=[{"key": "team"}])
    assert seen(fact).ask == plain.ask
    assert seen(plain).ask == PodRequest(
        containers=(ContainerRequest("main", (("volcano.sh/vgpu-number", 1),)),),
        tolerations=plain.ask.tolerations,
        annotations=(("volcano.sh/vgpu-mode", "mig"),),
    )
