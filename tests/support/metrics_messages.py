"""Messages of the bus about a small cluster, for tests of the metrics core."""

from deviceshare.model import (
    Card,
    Claim,
    ContainerGrant,
    ContainerRequest,
    DeviceGrant,
    Explanation,
    NodeFact,
    NodeLedger,
    NodeOutcomes,
    Outcome,
    PodFact,
    PodRequest,
)
from deviceshare_bus.messages import subjects
from deviceshare_bus.messages.codec import Events, Step
from deviceshare_metrics.core import explaining
from support.metrics import snapshot_of

CARD = Card("GPU-1", 0, 10, 11178, 100, "Tesla-P4", True, "hami-core")
ASK = PodRequest(containers=(ContainerRequest("main", (("cpu", 500), ("volcano.sh/vgpu-number", 1))),))


def node(name="n1", cards=(CARD,), **more):
    return subjects.fact("node", name), NodeFact(name=name, cards=cards, **more)


def pod(name="a", **more):
    uid = f"uid-{name}"
    return subjects.fact("pod", uid), PodFact(uid=uid, namespace="default", name=name, **{"ask": ASK, **more})


def grants(memory=1024, cores=10, card="GPU-1", family="hami-core", container="main"):
    return (ContainerGrant(container, 0, family, (DeviceGrant(card, 0, memory, cores),)),)


def claim(pod="a", claim_id="", **more):
    more = {"grants": grants(), "resources": (("cpu", 500),), **more}
    return Claim(id=claim_id or f"claim-{pod}", uid=f"uid-{pod}", namespace="default", name=pod, **more)


def ledger(*claims, node="n1"):
    return subjects.ledger(node), NodeLedger(node=node, claims=claims)


def outcome(state, pod="a", node="n1", reason=""):
    return subjects.outcome(node), NodeOutcomes(
        node=node, outcomes=(Outcome(f"claim-{pod}", f"uid-{pod}", state, reason),)
    )


def explanation(pod="a", message="0/1 nodes are unavailable: 1 too small.", decision="pending"):
    uid = f"uid-{pod}"
    return subjects.explain(uid), Explanation(
        uid=uid, namespace="default", name=pod, at=5.0, decision=decision, message=message
    )


def events(service, *steps, **more):
    return subjects.event(service), Events(service=service, instance="i", at=1.0, steps=steps, **more)


def step(name, at, pod="a"):
    return Step(f"uid-{pod}", f"default/{pod}", name, at)


def only(items):
    (item,) = items
    return item


def explain(core, namespace, name):
    return explaining.explain(core.store, snapshot_of(core), namespace, name)
