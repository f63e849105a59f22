"""The text of `deviceshare explain pod`."""

import pytest
from deviceshare.model import PENDING, PLACED, Explanation, NearCard, NearNode, Refusal
from deviceshare_cli.explaining import explanation_text
from deviceshare_metrics import api

OBJECT = {
    "metadata": {
        "annotations": {"volcano.sh/gpu-index": "0"},
        "ownerReferences": [{"kind": "Job", "name": "train"}],
    },
    "spec": {
        "priority": 100,
        "priorityClassName": "high",
        "containers": [
            {"name": "main", "resources": {"limits": {"volcano.sh/gpu-memory": "1024"}, "requests": {"cpu": "1"}}},
            {"name": "other"},
        ],
    },
}
"""The Kubernetes object of a pod."""


def answer(**changes: object) -> api.PodExplanation:
    fields: dict[str, object] = {"pod": None, "explanation": None, "steps": (), "trace_id": "ab" * 16}
    return api.PodExplanation(**(fields | changes))  # type: ignore[arg-type]


def pod(**changes: object) -> api.Pod:
    fields: dict[str, object] = {
        "namespace": "default",
        "name": "a",
        "uid": "u",
        "scheduler": "volcano",
        "node": None,
        "state": "Pending",
        "devices": (),
        "reason": None,
        "queue": "default",
        "group": "",
        "problems": (),
    }
    return api.Pod(**(fields | changes))  # type: ignore[arg-type]


def test_a_placed_pod() -> None:
    explanation = Explanation(
        uid="u",
        namespace="default",
        name="a",
        at=0.25,
        decision=PLACED,
        node="n1",
        nodes=5,
        feasible=2,
        environment={"main": {"VOLCANO_GPU_MEMORY_TOTAL": "1024"}},
        why=("policy binpack",),
        decided_by="placement-1",
    )
    text = explanation_text(
        "default/a",
        answer(
            pod=pod(
                state="Bound",
                created=5.0,
                node="n1",
                devices=(api.PodDevice(container="main", id="0", memory=1024, cores=0),),
            ),
            explanation=explanation,
            steps=(api.PodStep(time=1.5, service="binder", step="bound", node="n1", message=""),),
        ),
        OBJECT,
        0.0,
    )
    assert text.splitlines() == [
        "Pod default/a",
        "  Bound on n1",
        "  created 1970-01-01 00:00:05.000 UTC",
        "",
        "Request:",
        "  main: cpu: 1, volcano.sh/gpu-memory: 1024",
        "  other: <none>",
        "  priority 100 (high)",
        "  owner Job train",
        "",
        "Devices:",
        "  main: 0 (1024 MiB)",
        "",
        "Environment that the device plugin will inject:",
        "  main: VOLCANO_GPU_MEMORY_TOTAL=1024",
        "",
        "Annotations:",
        "  volcano.sh/gpu-index: 0",
        "",
        "Why there:",
        "  it fits on 2 of 5 nodes",
        "  policy binpack",
        "  decided by placement-1 at 1970-01-01 00:00:00.250",
        "",
        "Gang and queue:",
        "  queue default",
        "",
        "Steps (UTC):",
        "  1970-01-01 00:00:01.500  binder     bound on n1",
        "",
        "Trace id: " + "ab" * 16,
    ]


def test_a_pending_pod_with_its_gang() -> None:
    refusal = Refusal(
        code="CardInsufficientMemory", text="cards too full", nodes=3, resource="volcano.sh/vgpu-memory",
        asked=3000, free=1000, unit="MiB", nearest="n2", cards=24,
    )  # fmt: skip
    explanation = Explanation(
        uid="u", namespace="default", name="a", at=0.0, decision=PENDING, message="0/3 nodes", nodes=3,
        refusals=(refusal,), first_failing=(refusal,), gang="2 of 4 pods fit",
        group="default/g", caveats=("two at once do not work",), kept_for=("default/large",),
    )  # fmt: skip
    start = api.StartTime(at=0.0, earliest=1260.0, latest=10_800.0)
    place = api.QueuePosition(position=2, jobs=14, pods_before=1)
    of_pod = answer(pod=pod(group="default/g"), explanation=explanation, position=place, start=start)
    text = explanation_text("default/a", of_pod, None, 0.0)
    assert "  Pending\n  0/3 nodes\n" in text
    assert (
        "  CardInsufficientMemory: 3 cards too full (asked 3000 MiB, at most 1000 MiB free, "
        "2000 MiB missing); 24 cards; the closest is n2\n" in text
    )
    assert "  gang default/g\n  2 of 4 pods fit\n" in text
    assert "  warning: two at once do not work\n" in text
    assert "  nodes are kept free for default/large, which waited too long\n" in text
    assert "  queue default: position 2 of 14, behind 1 pod\n" in text
    assert "  starts in 21m to 3h (some 80% of such ranges are right)\n" in text


SECTIONS = ("Infeasible nodes", "Refused by its queue", "Not decided")


@pytest.mark.parametrize(
    ("code", "nodes", "title"),
    [
        ("CardNotHealth", 2, "Infeasible nodes"),
        ("QueueOverCapability", 0, "Refused by its queue"),
        ("ClusterOvercommitted", 0, "Refused by its queue"),
        ("NotEvaluated", 0, "Not decided"),
        ("FamilyDisabled", 0, "Not decided"),
    ],
)
def test_refusals_are_by_nodes_by_the_queue_or_by_what_is_not_evaluated(code: str, nodes: int, title: str) -> None:
    refusal = Refusal(code=code, text="reason", nodes=nodes)
    explanation = Explanation(
        uid="u", namespace="default", name="a", at=0.0, decision=PENDING, message="no", refusals=(refusal,),
        first_failing=(refusal,) if nodes else (),
    )  # fmt: skip
    text = explanation_text("default/a", answer(pod=pod(), explanation=explanation), None, 0.0)
    assert f"{title}:\n  {code}: {refusal.line}\n" in text
    assert [each for each in SECTIONS if each in text] == [title]


def test_a_node_counts_once_and_wide_shows_all_its_failing_checks() -> None:
    full = Refusal(code="CardInsufficientMemory", text="Insufficient memory", nodes=1)
    taint = Refusal(code="TaintNotTolerated", text="node(s) had untolerated taint {a: b}", nodes=1)
    explanation = Explanation(
        uid="u", namespace="default", name="a", at=0.0, decision=PENDING, message="no", nodes=1,
        refusals=(full, taint), first_failing=(taint,),
    )  # fmt: skip
    waiting = answer(pod=pod(), explanation=explanation)
    assert "Insufficient memory" not in explanation_text("default/a", waiting, None, 0.0)
    text = explanation_text("default/a", waiting, None, 0.0, wide=True)
    assert "Infeasible nodes:\n  TaintNotTolerated: 1 node(s) had untolerated taint {a: b}\n\n" in text
    assert (
        "All failing checks:\n  CardInsufficientMemory: 1 Insufficient memory\n"
        "  TaintNotTolerated: 1 node(s) had untolerated taint {a: b}\n"
    ) in text


def test_wide_shows_the_closest_nodes_and_their_cards() -> None:
    full = Refusal(
        code="CardInsufficientMemory", text="Insufficient vgpu-memory on a card", nodes=1,
        resource="volcano.sh/vgpu-memory", asked=3000, free=1000, unit="MiB", cards=1,
    )  # fmt: skip
    taint = Refusal(code="TaintNotTolerated", text="node(s) had untolerated taint {a: b}", nodes=1)
    cards = (
        NearCard(id="GPU-a", index=0, codes=("CardNotHealth",), memory=5000, cores=100, slots=10),
        NearCard(id="GPU-b", index=1, codes=("CardInsufficientMemory", "CardTypeMismatch"), memory=1000, slots=3),
        NearCard(id="GPU-c", index=2, memory=9000, cores=20, slots=1),
    )
    closest = (NearNode(node="n2", refusals=(full,), cards=cards), NearNode(node="n1", refusals=(full, taint)))
    explanation = Explanation(
        uid="u", namespace="default", name="a", at=0.0, decision=PENDING, message="0/2 nodes", closest=closest
    )
    waiting = answer(pod=pod(), explanation=explanation)
    text = explanation_text("default/a", waiting, None, 0.0, wide=True).splitlines()
    start = text.index("Closest nodes:")
    assert text[start : start + 11] == [
        "Closest nodes:",
        "  NODE   CODE                     REQUESTED   FREE       CARDS    REASON",
        "  n2     CardInsufficientMemory   3000 MiB    1000 MiB   1        Insufficient vgpu-memory on a card",
        "  n1     CardInsufficientMemory   3000 MiB    1000 MiB   1        Insufficient vgpu-memory on a card",
        "  n1     TaintNotTolerated        <none>      <none>     <none>   node(s) had untolerated taint {a: b}",
        "",
        "Cards of the closest nodes:",
        "  NODE   CARD   ID      FREE MEMORY   FREE CORES   FREE SLOTS   CODES",
        "  n2     0      GPU-a   5000Mi        100          10           CardNotHealth",
        "  n2     1      GPU-b   1000Mi        0            3            CardInsufficientMemory, CardTypeMismatch",
        "  n2     2      GPU-c   9000Mi        20           1            <none>",
    ]
    assert "losest nodes" not in explanation_text("default/a", waiting, None, 0.0)


def test_a_deleted_pod_and_a_pod_without_a_decision() -> None:
    message = "the pod is gone; before that: placed on n1"
    last = Explanation(
        uid="u", namespace="default", name="a", at=1.5, decision=PENDING, message=message, decided_by="placement-1"
    )
    gone = explanation_text("default/a", answer(explanation=last), None, 0.0)
    assert f"  The pod no longer exists. Its last records:\n  {message}\n" in gone
    assert "Why not" not in gone
    assert "no longer exists" in explanation_text("default/a", answer(), None, 0.0)
    assert "No decision yet." in explanation_text("default/a", answer(pod=pod()), None, 0.0)


def test_what_is_old_has_its_age() -> None:
    explanation = Explanation(
        uid="u", namespace="default", name="a", at=1000.0, decision=PENDING, message="0/3 nodes", nodes=3,
        decided_by="placement-1",
    )  # fmt: skip
    waits = answer(pod=pod(reason="0/3 nodes", reason_at=1000.0), explanation=explanation)
    fresh = explanation_text("default/a", waits, None, 1004.0)
    assert "as of" not in fresh
    old = explanation_text("default/a", waits, None, 1000.0 + 31 * 60)
    assert "  0/3 nodes (as of 31m ago)" in old.splitlines()
    assert "  the numbers of nodes and cards are those of this decision (as of 31m ago)" in old.splitlines()
    current = answer(pod=pod(reason="queue 'q'", reason_at=0.0), explanation=explanation)
    assert "  queue 'q'" in explanation_text("default/a", current, None, 9000.0).splitlines()
