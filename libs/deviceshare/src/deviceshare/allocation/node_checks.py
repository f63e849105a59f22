"""Checks of nodes that do not depend on cards: state and labels, the model of whole GPUs, ports, node resources."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np
from msgspec.structs import replace

from deviceshare.allocation.card_models import ModelWish
from deviceshare.allocation.first_failing import only
from deviceshare.allocation.predicates import Rule, reasons
from deviceshare.allocation.resource_names import nearest
from deviceshare.families import Check, listed
from deviceshare.families.nvidia import PREFIX, PRODUCT
from deviceshare.model import HostPort, NodeFact, unit_of
from deviceshare.state import PODS, Bools, CardView, HostPorts, Ints, ResourceTable


def state_checks(rule: Rule, nodes: Sequence[NodeFact | None], admitted: Bools) -> list[Check]:
    """Return the failed checks of the node filter; ``admitted`` bool[R]: the nodes that pass all of them."""
    found: defaultdict[tuple[str, str], Bools] = defaultdict(lambda: np.zeros(len(nodes), dtype=np.bool_))
    for number in np.flatnonzero(~admitted).tolist():
        node = nodes[number]
        for reason in reasons(rule, node) if node is not None else ():
            found[reason.code, reason.text][number] = True
    no_cards = np.zeros(len(nodes), dtype=np.int64)
    return [Check(code, text, where, no_cards) for (code, text), where in found.items()]


def model_checks(
    wish: ModelWish,
    names: Sequence[str],
    models: Ints,
    asked: Iterable[tuple[str, int]],
    table: ResourceTable,
    rows: Ints,
) -> list[Check]:
    """Return the checks that fail on nodes with GPUs of other models than the pod accepts, or of an unknown model.

    Args:
        wish: the models that the pod accepts.
        names: the names of models, by code.
        models: int64[R], the codes of the nodes' models; 0: unknown.
        asked: the node resources of the pod: only nodes with these GPUs count.
        table: the resources of the nodes.
        rows: int64[R], the nodes' rows in ``table``.
    """
    whole = np.zeros(len(rows), dtype=np.bool_)
    for resource, _ in asked:
        if resource.startswith(PREFIX):
            whole |= table.allocatable(rows, resource) > 0
    refused = whole & ~wish.accepted(names)[models]
    known, unknown = refused & (models != 0), refused & (models == 0)
    types = listed(names[code] for code in np.unique(models[known]).tolist())
    texts = {f"GPUs of type {types}": known, f"GPUs without the label {PRODUCT}": unknown}
    no_cards = np.zeros(len(rows), dtype=np.int64)
    return [
        Check("NodeTypeMismatch", f"node(s) had {text} for {wish}", where, no_cards)
        for text, where in texts.items()
        if where.any()
    ]


def amount_checks(
    asked: Iterable[tuple[str, int]],
    table: ResourceTable,
    rows: Ints,
    devices: frozenset[str],
    offered: frozenset[str],
) -> list[Check]:
    """Return the checks of node resources: insufficient amounts, too many pods, reserved nodes, unknown resources.

    ``devices``: the resources by which devices are requested. Another resource that no node has may be misspelt: the
    nearest of those that nodes have, ``offered``, is suggested.
    """
    checks = []
    no_cards = np.zeros(len(rows), dtype=np.int64)
    for name, amount in ((PODS, 1), *asked):
        free = table.free(rows, name)
        short = free < amount
        if not short.any():
            continue
        if name == PODS:
            reserved = table.reserved(rows)
            if reserved.any():
                text = "node(s) were kept free for a gang that waited too long"
                checks.append(Check("NodeKeptFree", text, reserved, no_cards))
            short &= ~reserved
            if short.any():
                checks.append(Check("TooManyPods", "Too many pods", short, no_cards, PODS, 0, free))
        elif table.column(name) >= 0 and not table.allocatable(rows, name).any():
            text = f"Insufficient {name}, of which kubelet offers none on any node"
            checks.append(Check("InsufficientResource", text, short, no_cards, name, amount, free, unit_of(name)))
        elif not table.allocatable(rows, name).any():
            meant = "" if name in devices else nearest(name, offered)
            text = f"Insufficient {name}, which no node has" + (f"; did you mean {meant}?" if meant else "")
            checks.append(Check("ResourceUnknown", text, short, no_cards, name, amount, free, unit_of(name)))
        else:
            text, unit = f"Insufficient {name}", unit_of(name)
            checks.append(Check("InsufficientResource", text, short, no_cards, name, amount, free, unit))
    return checks


def health_by_kubelet(checks: Sequence[Check], nodes: Sequence[NodeFact | None], names: frozenset[str]) -> list[Check]:
    """Return checks of cards in which those of health name the resource of which kubelet offers 0 on a node.

    Kubelet's allocatable counts healthy devices: it is 0 while a device plugin reports all of them as unhealthy, and
    when the plugin is gone. ``nodes``: those of the rows; ``names``: the resources of the device families.
    """
    found = []
    for check in checks:
        by_text: defaultdict[str, Bools] = defaultdict(lambda: np.zeros(len(nodes), dtype=np.bool_))
        for row in np.flatnonzero(check.nodes).tolist() if check.code == "CardNotHealth" else ():
            node = nodes[row]
            zero = next((name for name in sorted(names) if node and node.allocatable.get(name) == 0), "")
            by_text[f"{check.text}: kubelet's allocatable {zero} is 0" if zero else check.text][row] = True
        parts = [only(replace(check, text=text, nodes=rows), rows) for text, rows in by_text.items()]
        found += parts or [check]
    return found


def kubelet_checks(
    asked: Iterable[tuple[str, int]], table: ResourceTable, rows: Ints, undecided: Bools, view: CardView
) -> list[Check]:
    """Return the checks of device resources of which kubelet offers less than the device plugin registers.

    Kubelet counts the requests of all pods of the node, whatever cards they have, and devices that a plugin reports as
    unhealthy are not allocatable.

    Args:
        asked: what the pod requests of the resources of device families.
        table: the resources of the nodes.
        rows: int64[R], the nodes' rows in ``table``.
        undecided: bool[R], the nodes whose cards fail no check: of the others, their cards are the reason.
        view: the cards of the nodes.
    """
    checks = []
    no_cards = np.zeros(len(rows), dtype=np.int64)
    unhealthy = ((view.mode != 0) & ~view.healthy).any(axis=1)
    for name, amount in asked:
        free = table.free(rows, name)
        short = undecided & (free < amount) & (table.column(name) >= 0)
        text = f"Insufficient {name} in kubelet's allocatable"
        for where, why in ((short & ~unhealthy, text), (short & unhealthy, f"{text}, which unhealthy cards reduce")):
            if where.any():
                checks.append(Check("InsufficientResource", why, where, no_cards, name, amount, free, unit_of(name)))
    return checks


def port_checks(asked: Sequence[HostPort], ports: HostPorts, rows: Ints) -> list[Check]:
    """Return the check that fails on nodes where one of the pod's host ports is in use."""
    taken = np.array([not ports.free(row, asked) for row in rows.tolist()], dtype=np.bool_)
    text = "node(s) didn't have free ports for the requested pod ports"
    return [Check("HostPortInUse", text, taken, np.zeros(len(rows), dtype=np.int64))] if taken.any() else []
