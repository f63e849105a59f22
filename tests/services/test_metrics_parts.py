"""A scrape reads the cluster in parts: it shows what one part with everything shows."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from deviceshare.model import (
    Eviction,
    NodeLedger,
    NodeOutcomes,
    OtherPodFact,
    Outcome,
    PodDeviceClaim,
    PodGroupFact,
    QueueFact,
)
from deviceshare_bus.messages import subjects
from deviceshare_metrics import exposition
from deviceshare_metrics.core import MetricsCore, StateStore, parts
from hypothesis import given
from hypothesis import strategies as st
from support import devices
from support.metrics import exposed, read
from support.metrics_messages import claim, explanation, grants, ledger, node, pod

PODS, NODES = ("a", "b", "c", "d", "e"), ("n1", "n2", "n3", "n4")


def eviction(name: str) -> Eviction:
    return Eviction(
        uid=f"uid-{name}", namespace="default", name=name, claim="other", preemptor="default/x", action="preempt"
    )


KNOWN = (
    (subjects.fact("podgroup", "default/g"), PodGroupFact(key="default/g", min_member=2)),
    (subjects.fact("queue", "idle"), QueueFact(name="idle")),
    (subjects.fact("otherpod", "o"), OtherPodFact(uid="o", namespace="x", name="o", created=1.0)),
    *(
        (subjects.subject_of(each), each)
        for each in (
            devices.gpus("n1", 4),
            devices.gpu_class(),
            devices.allocated(devices.claim("one"), [("n1", "gpu-0")], "uid-a"),
        )
    ),
)
MESSAGES = st.one_of(
    st.sampled_from(NODES).map(node),
    st.builds(
        lambda name, node, group, ended, owner: pod(
            name, node=node, group=group or f"pod/uid-{name}", ended=ended, owner=owner, created=5.0,
            held=grants(512) if node else (), device_claims=(PodDeviceClaim("c", "ns/one"),),
        ),
        st.sampled_from(PODS), st.sampled_from(["", *NODES]), st.sampled_from(["", "default/g"]), st.booleans(),
        st.sampled_from(["", "Job/x"]),
    ),
    st.builds(
        lambda name, pods, going: (
            subjects.ledger(name),
            NodeLedger(
                node=name,
                claims=tuple(claim(each, claim_id=f"{each}-{name}") for each in pods),
                evictions=tuple(map(eviction, going)),
            ),
        ),
        st.sampled_from(NODES), st.sets(st.sampled_from(PODS), max_size=4), st.sets(st.sampled_from(PODS), max_size=1),
    ),
    st.builds(
        lambda name, pods, state: (
            subjects.outcome(name),
            NodeOutcomes(node=name, outcomes=tuple(Outcome(f"{each}-{name}", f"uid-{each}", state) for each in pods)),
        ),
        st.sampled_from(NODES), st.sets(st.sampled_from(PODS), max_size=4), st.sampled_from(["bound", "refused"]),
    ),
    st.sampled_from(PODS).map(explanation),
)  # fmt: skip


def series(core: MetricsCore) -> list[str]:
    return sorted(line for line in exposed(core).splitlines() if not line.startswith("process_"))


def whole(store: StateStore) -> Iterator[StateStore]:
    yield store


@given(st.lists(MESSAGES, max_size=30))
def test_parts_show_what_the_whole_shows(messages: list[tuple[str, Any]]) -> None:
    core = read(*KNOWN, *messages)

    def shown_with(owner: object, **values: int | Callable[..., Any]) -> list[str]:
        with pytest.MonkeyPatch.context() as patch:
            for name, value in values.items():
                patch.setattr(owner, name, value)
            return series(core)

    assert shown_with(parts, NODES=1, WAITING=1) == shown_with(exposition, parts=whole)


def test_nodes_with_the_same_pod_are_in_one_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "NODES", 1)
    two = [ledger(claim("a", claim_id=f"a-{name}"), node=name) for name in ("n2", "n3")]
    core = read(*map(node, NODES), pod("a"), pod("b"), *two)
    found = [sorted(each.name for each in part.nodes.values()) for part in parts.parts(core.store)]
    assert found == [["n2", "n3"], ["n1"], ["n4"], [], []]
