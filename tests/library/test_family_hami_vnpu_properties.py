"""HAMi vNPUs under any sequence of steps: no chip is overcommitted, and a restart restores the state."""

import json

import hypothesis.strategies as st
from deviceshare.allocation import Allocator
from deviceshare.model import NodeFact, PodRequest
from deviceshare.objects import decode_pod
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from support.builders import ask, container
from support.hami_vnpu import FAMILY, allocator, chips, limits, npu, npu_node, shared, written

ASKS = [
    *(npu(1, memory, word="Ascend910X") for memory in (5, 15, None)),
    npu(2, word="Ascend910X"),
    npu(1, 5, word="Ascend910X", containers=2),
    shared(1, 30, 40, "Ascend910X"),
    shared(1, 30, word="Ascend910X"),
    shared(2, 10, 100, "Ascend910X"),
    ask(
        container("main", **limits(1, 5, word="Ascend910X")),
        init_containers=(
            container("init", **limits(1, 15, word="Ascend910X")),
            container("side", sidecar=True, **limits(1, 5, word="Ascend910X")),
        ),
    ),
]
MODES = {None: "vnpu", "true": "vnpu-hami-core", "false": "vnpu-template"}


def pod_on(node_name: str, uid: str, what: PodRequest, annotations: dict[str, str]) -> bytes:
    """Return a bound pod as the API server has it."""

    def containers(part) -> list[dict]:
        return [
            {
                "name": each.name,
                "resources": {"limits": {name: str(amount) for name, amount in each.resources}},
                **({"restartPolicy": "Always"} if each.sidecar else {}),
            }
            for each in part
        ]

    metadata = {"namespace": "ns", "name": uid, "uid": uid, "annotations": dict(what.annotations) | annotations}
    spec = {
        "nodeName": node_name,
        "containers": containers(what.containers),
        "initContainers": containers(what.init_containers),
    }
    return json.dumps({"metadata": metadata, "spec": spec}).encode()


class Cluster(RuleBasedStateMachine):
    """Pods come and go, nodes change; what stands is what a scheduler that starts anew reads from the annotations."""

    def __init__(self) -> None:
        super().__init__()
        self.nodes: dict[str, NodeFact] = {}
        self.pods: dict[str, tuple[str, bytes]] = {}
        self.count = 0

    @initialize(policy=st.sampled_from(["", "binpack", "spread"]), mixed=st.booleans())
    def start(self, policy, mixed) -> None:
        self.one = allocator(policy=policy, mixed_chips=mixed)

    @rule(
        name=st.sampled_from("ab"), count=st.integers(0, 4), slots=st.integers(1, 4), healthy=st.booleans(),
        mode=st.sampled_from(sorted(MODES.values())), linked=st.booleans(), offered=st.sampled_from([None, None, 0, 3]),
    )  # fmt: skip
    def set_node(self, name, count, slots, healthy, mode, linked, offered) -> None:
        cards = chips(
            count,
            "Ascend910X",
            slots=slots,
            healthy=healthy,
            mode=mode,
            networks=(0, 1, 0, 1) if linked else (),
            of=name,
        )
        self.nodes[name] = npu_node(cards, name, offered)
        self.one.set_node(self.nodes[name])

    @precondition(lambda self: self.nodes)
    @rule(what=st.sampled_from(ASKS))
    def place(self, what) -> None:
        placement = self.one.place(what)
        if placement is None:
            assert self.one.why_not(what).refusals
            return
        before = self.overdrawn()
        self.count += 1
        raw = pod_on(placement.node, f"p{self.count}", what, written(placement, what))
        self.pods[f"p{self.count}"] = (placement.node, raw)
        self.one.hold(placement.node, f"p{self.count}", placement.grants, placement.resources)
        assert self.overdrawn() <= before, "a placement overdrew a chip"

    @precondition(lambda self: self.pods)
    @rule(at=st.integers(0, 20))
    def release(self, at) -> None:
        uid = sorted(self.pods)[at % len(self.pods)]
        assert self.one.release(self.pods.pop(uid)[0], uid)

    def overdrawn(self) -> set[tuple[str, str]]:
        """Chips with more taken than they have: only nodes that shrank may have some."""
        found = set()
        for name, each in self.nodes.items():
            amounts = zip(
                each.cards,
                self.one.used_cards(name),
                self.one.card_state(name, "vnpu_ai_cores"),
                self.one.card_state(name, "vnpu_ai_cpus"),
                self.one.card_state(name, "vnpu_shares"),
                strict=True,
            )
            for card, (memory, cores, slots), ai_cores, ai_cpus, shares in amounts:
                over = memory > card.memory or cores > 100 or slots > card.slots or ai_cores > 20 or ai_cpus > 7
                if over or (0 < shares < slots and not self.one.conf.mixed_chips):
                    found.add((name, card.id))
        return found

    @invariant()
    def a_restart_reads_the_same_from_the_annotations(self) -> None:
        if not hasattr(self, "one"):
            return
        anew = Allocator(self.one.conf)
        for node_name, raw in self.pods.values():
            fact = decode_pod(raw)
            assert not fact.problems
            anew.hold(node_name, fact.uid, fact.held, anew.amounts(fact.ask))
        for each in self.nodes.values():
            anew.set_node(each)
        for name in self.nodes:
            assert anew.used_cards(name) == self.one.used_cards(name)
            for state in FAMILY.accounting.state:
                assert anew.card_state(name, state) == self.one.card_state(name, state)
        for what in ASKS:
            assert anew.place(what) == self.one.place(what)

    def teardown(self) -> None:
        if hasattr(self, "one"):
            for uid, (node_name, _) in self.pods.items():
                self.one.release(node_name, uid)
            for name in self.nodes:
                assert all(used == (0, 0, 0) for used in self.one.used_cards(name))
                assert not any(sum(self.one.card_state(name, state)) for state in FAMILY.accounting.state)


TestCluster = Cluster.TestCase
TestCluster.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
