"""The plan of ``deviceshare simulate cluster --defragment`` as text and JSON."""

import shlex
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

from deviceshare.allocation import MIN_GAIN
from deviceshare.kernels import CARD
from deviceshare.model import visible
from deviceshare_metrics.api import PodDevice

from deviceshare_cli.output import NONE, lines_text, table
from deviceshare_cli.pods import shown_devices
from deviceshare_cli.simulate.defragmentation import Defragmentation, PlannedMove
from deviceshare_cli.simulate.report import count, placed_pods

MIN_WASTE = 0.005
"""The least change of waste that is printed, in cards."""


def as_json(found: Defragmentation) -> dict[str, Any]:
    """Return the plan as the value of ``--json``."""
    before, after = found.fragmentation
    return {
        "policy": found.policy,
        "budget": found.budget,
        "pods": found.pods,
        "restartable": found.restartable,
        "excluded": [{"reason": reason, "pods": pods} for reason, pods in found.excluded],
        "moves": [
            {
                "namespace": move.pod.namespace,
                "name": move.pod.name,
                "from": {"node": move.source, "devices": move.held},
                "to": {"node": move.target, "devices": move.granted},
                "gain": round(move.gain, 3),
            }
            for move in found.moves
        ],
        "gain": round(found.gain, 3),
        "fragmentation": {"before": round(before, 3), "after": round(after, 3)},
        "waiting": {"without": found.waiting[0], "with": found.waiting[1]},
        **{
            name: [
                {"namespace": pod.namespace, "name": pod.name, "node": pod.node, "devices": pod.devices} for pod in pods
            ]
            for name, pods in (("placed_only_with", found.only_with), ("placed_only_without", found.only_without))
        },
    }


def as_text(found: Defragmentation) -> str:
    """Return the plan: its moves in their order, what they change, and the commands that begin it; else one line."""
    if not found.moves:
        return f"Nothing to move: {_nothing(found)}"
    before, after = found.fragmentation
    frees = [f"Fragmentation, weighted as in docs/policies.md: {before:.2f} -> {after:.2f} cards."]
    if abs(found.less_waste) >= MIN_WASTE:
        frees.append(f"Capacity of devices beyond the requests of their pods: {-found.less_waste:+.2f} cards.")
    without, with_plan = found.waiting
    waits = [f"Pods that wait: {without} without the plan, {with_plan} with it."]
    for case, pods in (("with", found.only_with), ("without", found.only_without)):
        if pods:
            waits += [f"Placed only {case} the plan:", *placed_pods(pods)]
    plan = f"Plan of {count(len(found.moves), 'move')}, at most {found.budget}, under the policy {found.policy}."
    parts = [
        f"{plan} {_restartable(found)}.",
        table(("NAMESPACE", "POD", "FROM", "TO", "GAIN"), list(map(_row, found.moves))),
        lines_text(frees),
        lines_text(waits),
    ]
    if found.excluded:
        rows = [(str(pods), reason) for reason, pods in found.excluded]
        parts.append(f"Pods that are not considered:\n{table(('PODS', 'REASON'), rows)}")
    return "\n\n".join([*parts, lines_text(_commands(found.moves))])


def _nothing(found: Defragmentation) -> str:
    if not found.pods:
        return "no pod with cards is placed."
    least = f"{MIN_GAIN / CARD:g} cards"
    plan = f"no plan of at most {count(found.budget, 'move')} gains more than {least} for each moved pod. "
    reasons = ", ".join(f"{reason}: {pods}" for reason, pods in found.excluded)
    return (plan if found.restartable else "") + _restartable(found) + (f" ({reasons})." if reasons else ".")


def _restartable(found: Defragmentation) -> str:
    return f"{found.restartable} of {count(found.pods, 'placed pod')} with cards may be restarted"


def _row(move: PlannedMove) -> tuple[str, ...]:
    source, target = _place(move.source, move.held), _place(move.target, move.granted)
    return (move.pod.namespace, move.pod.name, source, target, f"{move.gain:.2f}")


def _place(node: str, devices: Iterable[PodDevice]) -> str:
    return f"{node}: {shown_devices(devices) or NONE}"


def _commands(moves: Sequence[PlannedMove]) -> Iterator[str]:
    yield (
        "Nothing was changed. To restart the pods, run these commands in this order. Wait until the new pods run on "
        "another node before each uncordon:"
    )
    for source, group in groupby(moves, key=lambda move: move.source):
        yield f"kubectl cordon {_word(source)}"
        for move in group:
            yield f"kubectl delete pod -n {_word(move.pod.namespace)} {_word(move.pod.name)}"
        yield f"kubectl uncordon {_word(source)}"
    yield (
        "The scheduler chooses nodes and cards again when the pods are created again: they may differ from the plan. "
        "Without the cordon the pods may return to their node."
    )


def _word(text: str) -> str:
    """Return a name as one word of a shell."""
    return shlex.quote(visible(text))
