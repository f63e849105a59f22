"""Messages as no service writes them: valid ones with one value replaced, bytes changed, or on another subject."""

import math
from collections.abc import Iterator
from typing import Any

import msgspec
from deviceshare.model import (
    Card,
    Claim,
    ConfigFact,
    ContainerGrant,
    ContainerRequest,
    DeviceGrant,
    Explanation,
    Gone,
    HostPort,
    NodeFact,
    NodeLedger,
    NodeOutcomes,
    OtherPodFact,
    Outcome,
    PodFact,
    PodGroupFact,
    PodRequest,
    PriorityClassFact,
    QueueFact,
    Synced,
    Toleration,
)
from deviceshare_bus.messages import subjects
from deviceshare_bus.messages.codec import Events, Message, Step, Undecodable, encode
from hypothesis import strategies as st

_GRANTS = (ContainerGrant("main", 0, "hami-core", (DeviceGrant("GPU-0", 0, 10, 5),)),)
_ASK = PodRequest(
    containers=(
        ContainerRequest("main", (("cpu", 100), ("volcano.sh/vgpu-memory", 10), ("volcano.sh/vgpu-number", 1))),
    ),
    tolerations=(Toleration("k", "Exists", "", ""),),
    host_ports=(HostPort("0.0.0.0", "TCP", 80),),
)
_CARD = Card("GPU-0", 0, 10, 100, 100, "V100", True, "hami-core")
BASES: dict[str, msgspec.Struct] = {
    "cluster.node.n1": NodeFact(
        name="n1", revision="5", allocatable={"cpu": 4000, "pods": 10}, cards=(_CARD,), labels={"a": "b"}
    ),
    "cluster.pod.u1": PodFact(
        uid="u1", namespace="default", name="a", scheduler="deviceshare", group="pod/u1", queue="default", ask=_ASK
    ),
    "cluster.pod.u2": PodFact(
        uid="u2", namespace="default", name="b", node="n1", group="ns/g", held=_GRANTS, ask=_ASK, running=True,
        unserved=(("hami-core", "1"),), until_running=("k",),
    ),
    "cluster.otherpod.u4": OtherPodFact(
        uid="u4", namespace="default", name="c", scheduler="default-scheduler", served=("deviceshare",)
    ),
    "cluster.podgroup.ns.g": PodGroupFact(key="ns/g", uid="g", min_member=2, min_resources={"cpu": 5}, phase="Inqueue"),
    "cluster.priorityclass.high": PriorityClassFact(name="high", value=5),
    "cluster.queue.default": QueueFact(name="default", capability={"cpu": 10**6}, hierarchy=(("root", 1.0),)),
    "cluster.config.scheduler": ConfigFact(name="scheduler", text="actions: allocate"),
    "cluster.pod.u3": Gone(revision="7"),
    "cluster.synced": Synced(revision="9", at=1.0, objects=3),
    subjects.ledger("n1"): NodeLedger(
        node="n1",
        claims=(
            Claim(
                id="c1", uid="u1", namespace="default", name="a", grants=_GRANTS, resources=(("cpu", 9),), decided_at=3
            ),
            Claim(id="c2", uid="u2", namespace="default", name="b", grants=_GRANTS, withdraw=True),
        ),
    ),
    subjects.outcome("n1"): NodeOutcomes(
        node="n1", outcomes=(Outcome("c1", "u1", "refused", "no", 2.0), Outcome("c2", "u2", "bound"))
    ),
    "explain.u1": Explanation(uid="u1", namespace="default", name="a", at=1.0, decision="pending", message="no"),
    "event.binder": Events(
        service="binder", instance="b", at=1.0, steps=(Step("u1", "default/a", "bound", 1.0),), counters={"x": 1},
        undecodable=(Undecodable("LEDGER", "ledger.1.x", 3, "e", b"?"),),
    ),
}  # fmt: skip
"""A valid message of every kind, by subject."""

_DEEP: list[Any] = []
for _ in range(300):
    _DEEP = [_DEEP]
VALUES = st.sampled_from(
    [
        None, True, -1, 0, 1, 2, 2**31, 2**53, 2**53 + 1, -(2**53) - 1, 2**63 - 1, 2**63, 2**64 - 1, -(2**63), 0.5,
        -1e300, 1e308, math.nan, math.inf, "", "x", "n2", "u2", "c2", "9" * 6000, "a.b", "a/b", "*", "\x00",
        b"\xff\xfe", [], {}, [1], [["x", 2**60]], {"x": 2**60}, {"": -5}, _DEEP,
    ]
)  # fmt: skip
SUBJECTS = st.sampled_from(
    [
        *BASES, "cluster", "cluster.pod", "cluster.pod.", "cluster.other.x", "cluster.podgroup.x", "cluster.node.n2",
        "ledger.x", "ledger.1", "ledger.x.n1", f"ledger.{(subjects.partition('n1') + 1) % 64}.n1", "ledger.007.n1",
        f"ledger.0{subjects.partition('n1')}.n1", subjects.ledger("n2"), "outcome.x",
        "outcome..", subjects.outcome("n2"),
        f"outcome.{(subjects.partition('n1') + 1) % 64}.n1", "explain", "explain.u2", "event", "event.other", "x", "",
    ]
)  # fmt: skip


def paths(tree: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the place of every value in a tree of dicts and lists."""
    yield at
    if isinstance(tree, dict | list | tuple) and len(at) < 10:
        for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree):
            yield from paths(value, (*at, key))


def replaced(tree: Any, at: tuple[Any, ...], value: Any) -> Any:
    """Return a tree with another value at a place."""
    if not at:
        return value
    copy = dict(tree) if isinstance(tree, dict) else list(tree)
    copy[at[0]] = replaced(copy[at[0]], at[1:], value)
    return copy


@st.composite
def contents(draw: st.DrawFn) -> tuple[str, bytes]:
    """Draw a valid message with a value replaced or added, or with bytes changed; its subject may be another."""
    subject = draw(st.sampled_from(list(BASES)))
    data = encode(BASES[subject])
    if draw(st.booleans()):
        tree = msgspec.msgpack.decode(data)
        for _ in range(draw(st.integers(0, 2))):
            tree = replaced(tree, draw(st.sampled_from(list(paths(tree)))), draw(VALUES))
        if isinstance(tree, dict) and draw(st.booleans()):
            tree = tree | {draw(st.sampled_from(["v", "x", "kind", "claims", "paused"])): draw(VALUES)}
        data = msgspec.msgpack.encode(tree)
    else:
        changed = bytearray(data)
        for _ in range(draw(st.integers(0, 3))):
            changed[draw(st.integers(0, len(changed) - 1))] = draw(st.integers(0, 255))
        data = bytes(changed[: draw(st.integers(0, len(changed)))] if draw(st.booleans()) else changed)
    return (subject if draw(st.booleans()) else draw(SUBJECTS)), data


def message(subject: str, data: bytes, sequence: int = 1) -> Message:
    """Return a message."""
    return Message(subject, sequence, data)
