"""A recorded trace as values: nodes, pods, and what the policies need of them."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from deviceshare.kernels.arrays import Mask
from deviceshare.kernels.typical import CARD, TypicalPod

from deviceshare_lab.traces.nodes import TraceNodes, TracePods

_COVERED = 0.95
"""The share of all pods that the typical pods are, as in the paper."""


class TraceNode(NamedTuple):
    """A node: thousandths of a core, MiB, the number of its cards, and their model."""

    name: str
    cpu: int
    memory: int
    cards: int
    model: str


class TracePod(NamedTuple):
    """A pod: thousandths of a core, MiB, and ``amount`` thousandths of each of ``cards`` cards.

    ``models``: the models that it accepts, joined by ``|``, '' for all. ``created`` and ``deleted``: seconds; 0 for a
    pod whose times are not known.
    """

    name: str
    cpu: int
    memory: int
    cards: int
    amount: int
    models: str = ""
    created: int = 0
    deleted: int = 0

    @property
    def milli(self) -> int:
        """All that it requests of cards, in thousandths of a card."""
        return self.cards * self.amount


class Trace(NamedTuple):
    """The nodes, sorted by name, and the pods of a workload."""

    workload: str
    nodes: tuple[TraceNode, ...]
    pods: tuple[TracePod, ...]

    @property
    def milli(self) -> int:
        """All cards, in thousandths of a card."""
        return CARD * sum(node.cards for node in self.nodes)

    @property
    def models(self) -> list[str]:
        """The models of the cards; a model is encoded as its index."""
        return sorted({node.model for node in self.nodes})


def accepted(models: str, known: Sequence[str]) -> Mask:
    """Return uint8[models]: the known models that a pod accepts."""
    wanted = [part for part in models.split("|") if part]
    return np.array([not wanted or model in wanted for model in known], dtype=np.uint8)


def trace_nodes(trace: Trace, ranks: Sequence[int]) -> TraceNodes:
    """Return the nodes, empty and in the order of their ranks."""
    codes = {model: code for code, model in enumerate(trace.models)}
    ordered = [trace.nodes[at] for at in np.argsort(np.array(ranks, dtype=np.int64)).tolist()]
    values = np.array([(node.cpu, node.memory, node.cards, codes[node.model]) for node in ordered], dtype=np.int64)
    cpu, memory, cards, models = values.reshape(-1, 4).T.copy()
    return TraceNodes(cpu, memory, cards, models)


def pod_classes(trace: Trace) -> list[TracePods]:
    """Return for each pod of the trace its class, which pods with equal requests share."""
    known = trace.models
    classes: dict[TracePod, TracePods] = {}
    found = []
    for pod in trace.pods:
        key = pod._replace(name="", created=0, deleted=0)
        if key not in classes:
            allowed = accepted(pod.models, known)
            classes[key] = TracePods(pod.cpu, pod.memory, pod.amount, pod.cards, allowed)
        found.append(classes[key])
    return found


def typical_pods(pods: Iterable[TracePod], models: Sequence[str]) -> list[TypicalPod]:
    """Return the most frequent requests that together are 95 % of all pods, memory aside.

    Of equally frequent requests the larger one comes first.
    """
    counts = Counter((pod.cpu, pod.amount, pod.cards, pod.models) for pod in pods)
    total = counts.total()
    taken = []
    covered = 0
    for key, count in sorted(counts.items(), key=lambda item: (item[1], item[0]), reverse=True):
        if covered >= _COVERED * total:
            break
        taken.append((key, count))
        covered += count
    return [
        TypicalPod((count / total) / (covered / total), cpu, amount, cards, accepted(wanted, models))
        for (cpu, amount, cards, wanted), count in taken
    ]
