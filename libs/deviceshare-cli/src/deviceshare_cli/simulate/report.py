"""The results of ``deviceshare simulate cluster`` as tables, JSON and curves."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from deviceshare_cli.output import NONE, lines_text, table
from deviceshare_cli.plots import Curve, Plot
from deviceshare_cli.pods import shown_devices
from deviceshare_cli.simulate.removal import Removal
from deviceshare_cli.simulate.results import PodResult, Result
from deviceshare_cli.whatif.addition import Addition

MAX_CLASSES = 30
"""The most classes of pods that the text lists."""
MAX_REASONS = 10
"""The most reasons that the text lists, the most frequent ones."""
MAX_PODS = 20
"""The most placed pods that the text lists."""


def as_json(results: Sequence[Result]) -> dict[str, Any]:
    """Return the results as the value of ``--json``."""
    return {"runs": [_run(each) for each in results]}


def _run(result: Result) -> dict[str, Any]:
    return {
        "policy": result.policy,
        **_removal(result.changes.removal),
        **_addition(result.changes.addition),
        "pods": len(result.pods),
        "placed": result.placed,
        "waiting": len(result.pods) - result.placed,
        "other_pods": {"placed": result.others[True], "waiting": result.others[False]},
        "nodes": result.after.nodes,
        "nodes_in_use": {"before": result.before.nodes_in_use, "after": result.after.nodes_in_use},
        "cards": result.after.total.cards,
        "cards_in_use": {"before": result.before.cards_in_use, "after": result.after.cards_in_use},
        "alloc_pct": _percents(result.before.total.percent, result.after.total.percent),
        "models": [
            {"model": model, "mode": mode, "cards": after.cards}
            | {"alloc_pct": _percents(result.before.of((model, mode)).percent, after.percent)}
            for (model, mode), after in result.after.models.items()
        ],
        "classes": [
            {"request": kind, "pods": pods, "placed": placed} for kind, (pods, placed) in result.classes.items()
        ],
        "reasons": [{"reason": reason, "pods": pods} for reason, pods in result.reasons],
        "decisions": [
            {"namespace": each.namespace, "name": each.name, "node": each.node or None}
            | {"devices": each.devices, "reason": each.reason or None}
            for each in result.pods
        ],
    }


def _removal(removed: Removal) -> dict[str, Any]:
    if not removed.nodes:
        return {}
    excluded = [{"reason": reason, "pods": pods} for reason, pods in removed.excluded.most_common()]
    return {"without": {"nodes": removed.nodes, "pods": len(removed.movable), "excluded": excluded}}


def _addition(added: Addition) -> dict[str, Any]:
    return {"added": {"nodes": added.number, "like": added.like}} if added.number else {}


def _percents(before: float, after: float) -> dict[str, float]:
    return {"before": round(before, 2), "after": round(after, 2)}


def as_text(results: Sequence[Result]) -> str:
    """Return the tables: the policies side by side, classes and models, then pods or reasons of each policy."""
    first = results[0]
    cards = first.after.total.cards
    parts = [f"{count(len(first.pods), 'pod')} on {count(first.after.nodes, 'node')} with {count(cards, 'card')}."]
    if first.others.total():
        others = first.others
        parts[0] += f" Other pods of the cluster came first: {others[True]} placed, {others[False]} wait."
    if first.changes.removal.nodes:
        parts += _without(first.changes.removal)
    if first.changes.addition.number:
        number, like = first.changes.addition
        parts.append(f"With {count(number, 'more node')} like {like}, for the pods that wait without them.")
    parts.append(
        table(("POLICY", "PLACED", "WAITING", "NODES IN USE", "CARDS IN USE", "ALLOCATED"), list(_rows(results)))
    )
    names = [each.policy.upper() for each in results]
    if first.pods:
        parts.append(lines_text(_classes(results, names)))
    models = [
        (model, mode or NONE, str(share.cards), *(_change(each, (model, mode)) for each in results))
        for (model, mode), share in first.after.models.items()
        if any(each.before.of((model, mode)) != each.after.of((model, mode)) for each in results)
    ]
    if models:
        of_models = table(("MODEL", "MODE", "CARDS", *names), models)
        parts.append(f"Allocated part of the cards, of the models that these pods get:\n{of_models}")
    if len(results) == 1 and first.placed:
        parts.append(lines_text(placed_pods([each for each in first.pods if each.node])))
    if len(results) == 1 and any((first.changes.removal.nodes, first.changes.addition.number)) and first.reasons:
        parts.append(lines_text(_waiting_pods([each for each in first.pods if not each.node])))
    elif any(each.reasons for each in results):
        parts.append(lines_text(_waiting(results, names)))
    return "\n\n".join(parts)


def _without(removed: Removal) -> Iterator[str]:
    """Yield what goes with the nodes that are gone."""
    nodes = f"node{'' if len(removed.nodes) == 1 else 's'} {', '.join(removed.nodes)}"
    yield lines_text([f"Without {nodes}: {count(len(removed.movable), 'pod')} to be placed again."])
    if removed.excluded:
        rows = [(str(pods), reason) for reason, pods in removed.excluded.most_common()]
        yield f"Pods that are not created again elsewhere:\n{table(('PODS', 'REASON'), rows)}"


def _rows(results: Sequence[Result]) -> Iterator[tuple[str, ...]]:
    for each in results:
        before, after = each.before, each.after
        yield (
            each.policy,
            str(each.placed),
            str(len(each.pods) - each.placed),
            f"{before.nodes_in_use} -> {after.nodes_in_use}",
            f"{before.cards_in_use} -> {after.cards_in_use}",
            f"{before.total.percent:.1f}% -> {after.total.percent:.1f}%",
        )


def _change(result: Result, model: tuple[str, str]) -> str:
    return f"{result.before.of(model).percent:.1f}% -> {result.after.of(model).percent:.1f}%"


def placed_pods(placed: Sequence[PodResult]) -> Iterator[str]:
    """Yield the lines of a table of placed pods."""
    rows = [(pod.namespace, pod.name, pod.node, shown_devices(pod.devices) or NONE) for pod in placed[:MAX_PODS]]
    yield from table(("NAMESPACE", "NAME", "NODE", "DEVICES"), rows).splitlines()
    if len(placed) > MAX_PODS:
        yield f"and {len(placed) - MAX_PODS} more; --json lists all"


def _waiting_pods(waiting: Sequence[PodResult]) -> Iterator[str]:
    yield "Pods that wait:"
    rows = [(pod.namespace, pod.name, pod.reason or NONE) for pod in waiting[:MAX_PODS]]
    yield from table(("NAMESPACE", "NAME", "REASON"), rows).splitlines()
    if len(waiting) > MAX_PODS:
        yield f"and {len(waiting) - MAX_PODS} more; --json lists all"


def _classes(results: Sequence[Result], names: Sequence[str]) -> Iterator[str]:
    classes = list(results[0].classes.items())
    placed = [each.classes for each in results]
    rows = [
        (kind, str(pods), *(str(of_policy[kind][1]) for of_policy in placed))
        for kind, (pods, _) in classes[:MAX_CLASSES]
    ]
    yield "Placed pods by what they request:"
    yield from table(("REQUEST", "PODS", *names), rows).splitlines()
    if len(classes) > MAX_CLASSES:
        yield f"and {count(len(classes) - MAX_CLASSES, 'other request')}; --json lists all"


def _waiting(results: Sequence[Result], names: Sequence[str]) -> Iterator[str]:
    """Yield the lines of the reasons of pods that wait, with their numbers under each policy."""
    found = [dict(each.reasons) for each in results]
    most: Counter[str] = Counter()
    for reasons in found:
        most |= Counter(reasons)
    shown = [reason for reason, _ in most.most_common(MAX_REASONS)]
    yield "Pods that wait, by reason:"
    rows = [(*(str(reasons.get(reason, 0)) for reasons in found), reason or NONE) for reason in shown]
    yield from table((*names, "REASON"), rows).splitlines()
    if len(most) > len(shown):
        yield f"and {count(len(most) - len(shown), 'other reason')}; --json lists all"


def count(number: int, noun: str) -> str:
    """Return ``1 pod``, ``2 pods``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def plots(results: Sequence[Result]) -> Iterator[tuple[str, Plot]]:
    """Yield the plot by its name: allocated part of the cards by placed pods, a curve for each policy."""
    curves = [Curve(each.policy, each.curve) for each in results]
    pods = len(results[0].pods)
    yield "cluster", Plot(f"{count(pods, 'pod')} arrive", "placed pods", "allocated, percent of all cards", curves)
