"""Inter-pod constraints on random clusters that change, against a plain reference.

``DEVICESHARE_INTER_POD_CLUSTERS`` sets how many clusters are tried.
"""

import json
import os
from collections import Counter

import pytest
from deviceshare.allocation import Allocator
from deviceshare.conf import parse_conf
from deviceshare.model import NodeFact, PodFact
from deviceshare.objects import decode_node, decode_pod
from msgspec.structs import replace
from support.inter_pod_clusters import NAMESPACES, Generator, Object
from support.plain_inter_pod import TEXTS, PlainCluster, reasons, totals

CLUSTERS = int(os.environ.get("DEVICESHARE_INTER_POD_CLUSTERS", "60"))
AFFINITY_WEIGHT, SPREAD_WEIGHT = 3, 2
CONF = """
actions: "allocate, backfill"
tiers:
- plugins:
  - name: predicates
  - name: nodeorder
    arguments:
      leastrequested.weight: 0
      balancedresource.weight: 0
      nodeaffinity.weight: 0
      tainttoleration.weight: 0
      imagelocality.weight: 0
      podaffinity.weight: 3
      podtopologyspread.weight: 2
"""


class Both:
    """One cluster as the allocator and the reference know it."""

    def __init__(self, seed: int) -> None:
        self.make = Generator(seed)
        self.allocator = Allocator(parse_conf(CONF, "conf"))
        self.plain = PlainCluster({}, [], {})
        self.facts: dict[str, PodFact] = {}
        for name, labels in self.make.namespaces().items():
            self.namespace(name, labels)
        for number in range(self.make.random.randint(2, 8)):
            self.node(f"n{number}")
        for _ in range(self.make.random.randint(0, 12)):
            self.add_pod()

    def node(self, name: str) -> None:
        obj = self.make.node(name)
        self.plain.nodes[name] = obj
        self.allocator.set_node(decoded_node(obj))

    def remove_node(self, name: str) -> None:
        del self.plain.nodes[name]
        self.allocator.remove_node(name)

    def namespace(self, name: str, labels: dict[str, str] | None) -> None:
        if labels is None:
            self.plain.namespaces.pop(name, None)
        else:
            self.plain.namespaces[name] = labels
        self.allocator.set_namespace(name, None if labels is None else tuple(sorted(labels.items())))

    def add_pod(self) -> None:
        # A pod may be on a node that is not known yet, or not any more.
        obj = self.make.pod(f"n{self.make.random.randint(0, 8)}")
        self.plain.pods.append(obj)
        fact = decoded_pod(obj)
        self.facts[fact.uid] = fact
        self.allocator.imposed_terms.add(fact.ask.topology)
        self.allocator.hold(fact.node, fact.uid, (), (), fact.tenant)

    def remove_pod(self) -> None:
        obj = self.plain.pods.pop(self.make.random.randrange(len(self.plain.pods)))
        fact = self.facts.pop(obj["metadata"]["uid"])
        self.allocator.imposed_terms.remove(fact.ask.topology)
        self.allocator.release(fact.node, fact.uid)

    def change(self) -> None:
        make = self.make
        kind = make.random.choice(("pod", "pod", "pod", "gone", "gone", "label", "node", "namespace"))
        if kind == "gone" and self.plain.pods:
            self.remove_pod()
        elif kind == "label" and self.plain.nodes:
            self.node(make.random.choice(sorted(self.plain.nodes)))
        elif kind == "node":
            name = f"n{make.random.randint(0, 8)}"
            if name in self.plain.nodes:
                self.remove_node(name)
            else:
                self.node(name)
        elif kind == "namespace":
            name = make.random.choice(NAMESPACES)
            self.namespace(name, make.namespaces().get(name))
        else:
            self.add_pod()

    def compare(self, obj: Object) -> None:
        """Compare feasible nodes, reasons and the best node for a pod."""
        fact = decoded_pod(obj)
        imposed = self.allocator.imposed_terms.selecting(fact.namespace, fact.labels)
        request = replace(fact.ask, imposed=imposed)
        admitted = [name for name in self.plain.nodes if usable(obj, self.plain.nodes[name])]
        expected = totals(self.plain, obj, admitted, AFFINITY_WEIGHT, SPREAD_WEIGHT)
        # The first placement after a change of nodes passes over all nodes, later ones use an index.
        for _ in range(2):
            placement = self.allocator.place(request)
            if placement is None:
                assert not expected
                continue
            assert placement.feasible == len(expected)
            best = max(expected.values())
            assert placement.node == min(name for name, score in expected.items() if score == best)
            assert placement.weighted_score == best
        if expected:
            return
        counted = Counter(text for found in reasons(self.plain, obj).values() for text in found)
        ours = {each.text: each.nodes for each in self.allocator.why_not(request).refusals if each.text in TEXTS}
        assert ours == counted


def usable(pod: Object, node: Object) -> bool:
    """Return whether node selector and taints let a pod use a node."""
    selector = pod["spec"].get("nodeSelector") or {}
    taints = node["spec"].get("taints") or ()
    blocked = any(each["effect"] == "NoSchedule" for each in taints) and not pod["spec"].get("tolerations")
    return not blocked and all(node["metadata"]["labels"].get(key) == value for key, value in selector.items())


def decoded_node(obj: Object) -> NodeFact:
    return decode_node(json.dumps(obj).encode())


def decoded_pod(obj: Object) -> PodFact:
    fact = decode_pod(json.dumps(obj).encode())
    assert not fact.problems
    return fact


@pytest.mark.parametrize("first", range(0, CLUSTERS, 20))
def test_random_clusters_equal_the_reference(first: int) -> None:
    for seed in range(first, min(first + 20, CLUSTERS)):
        both = Both(seed)
        waiting = [both.make.pod() for _ in range(4)]
        for _ in range(6):
            for obj in waiting:
                both.compare(obj)
            both.change()
