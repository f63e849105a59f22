"""A metrics core that has read two nodes with cards of one model, a bound pod and two that wait."""

from deviceshare.model import (
    Card,
    ContainerRequest,
    Explanation,
    NearCard,
    NearNode,
    PodRequest,
    QueueFact,
    Refusal,
)
from deviceshare_bus.messages.subjects import explain as explained
from deviceshare_bus.messages.subjects import fact
from support.metrics import catch_up, read
from support.metrics_messages import claim, events, grants, ledger, node, outcome, pod, step

SICK = Card("GPU-2", 1, 10, 11178, 100, "Tesla-P4", False, "hami-core")
HEALTHY = Card("GPU-1", 0, 10, 11178, 100, "Tesla-P4", True, "hami-core")
NEAR = NearNode(
    node="n1", cards=(NearCard(id="GPU-1", index=0, codes=("CardInsufficientMemory",), memory=512, cores=40, slots=2),)
)
FEW = Refusal(
    code="CardInsufficientMemory", text="with too little free memory", nodes=1, asked=9000, free=512, unit="MiB",
    nearest="n1",
)  # fmt: skip
ASKED = PodRequest(containers=(ContainerRequest("main", (("cpu", 500), ("volcano.sh/vgpu-memory", 3000))),))


def small_core():
    core = read(
        node(cards=(HEALTHY, SICK), allocatable={"cpu": 8000}),
        node("legacy", cards=(), allocatable={"nvidia.com/gpu": 2}),
        (fact("queue", "research"), QueueFact(name="research", weight=3, capability={"cpu": 4000})),
        ledger(claim("a", grants=grants(memory=3000), seen_at=1.2, decided_at=2.0, sent_at=2.1)),
        pod("a", node="n1", queue="research", owner="ReplicaSet/web", ask=ASKED),
        outcome("bound"),
        pod("w1", queue="research", group="default/train"),
        pod("w2", queue="research", group="default/train"),
        *(
            (
                explained(f"uid-{name}"),
                Explanation(
                    uid=f"uid-{name}", namespace="default", name=name, at=3.0, decision="pending", nodes=2,
                    message="0/2 nodes are unavailable: 1 with too little free memory.", first_failing=(FEW,),
                    refusals=(FEW,), closest=(NEAR,),
                ),
            )
            for name in ("w1", "w2")
        ),
        events("inventory", step("seen", 1.0), step("seen", 1.1, "w1")),
        events("placement", step("claimed", 2.1), step("pending", 3.0, "w1")),
        events("binder", step("bound", 2.5)),
    )  # fmt: skip
    catch_up(core)
    return core
