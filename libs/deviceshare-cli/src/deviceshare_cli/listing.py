"""``deviceshare get podgroups`` and ``get queues``: objects of the local cluster.

On a live cluster ``kubectl get podgroups`` shows the same.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from deviceshare_cluster.interface import Object

from deviceshare_cli import runfile
from deviceshare_cli.changing import connected
from deviceshare_cli.output import NONE, Table, print_items

KINDS = {"podgroups": "PodGroup", "queues": "Queue"}

_PHASES = ("pending", "inqueue", "running", "unknown", "completed")


async def listed(run: runfile.Run, kind: str, namespace: str | None, *, output: str) -> int:
    """Print all objects of a kind and return the exit status; ``output`` is ``table``, ``wide`` or ``json``."""
    async with connected(run) as cluster:
        objects = await cluster.list(KINDS[kind])
    if kind == "podgroups":
        objects = [each for each in objects if namespace in (None, each["metadata"].get("namespace"))]
    objects.sort(key=lambda each: (each["metadata"].get("namespace", ""), each["metadata"]["name"]))
    shown = queues_table(objects) if kind == "queues" else podgroups_table(objects, output == "wide")
    print_items(objects, shown, namespace, output)
    return 0


def podgroups_table(groups: Sequence[Object], wide: bool) -> Table:
    """Return the table of PodGroups with the reason of the condition Unschedulable, if it is the latest."""
    more = ["QUEUE", "MINRESOURCES"] if wide else []
    head = ["NAMESPACE", "NAME", "STATUS", "MINMEMBER", "RUNNINGS", *more, "REASON"]
    rows = []
    for group in groups:
        metadata, spec, status = group["metadata"], group.get("spec") or {}, group.get("status") or {}
        row = [metadata.get("namespace", ""), metadata["name"], status.get("phase") or NONE]
        row += [str(spec.get("minMember", 1)), str(status.get("running") or 0)]
        if wide:
            row += [spec.get("queue") or NONE, _amounts(spec.get("minResources"))]
        rows.append([*row, _reason(status)])
    return head, rows


def queues_table(queues: Sequence[Object]) -> Table:
    """Return the table of Queues: state and number of PodGroups in each phase."""
    head = ["NAME", "WEIGHT", "STATE", *(phase.upper() for phase in _PHASES), "CAPABILITY"]
    rows = []
    for queue in queues:
        spec, status = queue.get("spec") or {}, queue.get("status") or {}
        counts = [str(status.get(phase) or 0) for phase in _PHASES]
        row = [queue["metadata"]["name"], str(spec.get("weight", 1)), status.get("state") or NONE]
        rows.append([*row, *counts, _amounts(spec.get("capability"))])
    return head, rows


def _amounts(quantities: Mapping[str, Any] | None) -> str:
    return ", ".join(f"{name}: {amount}" for name, amount in sorted((quantities or {}).items())) or NONE


def _reason(status: Mapping[str, Any]) -> str:
    """Return the latest condition, if it is the reason why pods wait."""
    condition = (status.get("conditions") or [{}])[-1]
    if condition.get("type") != "Unschedulable" or condition.get("status") != "True":
        return ""
    return f"{condition.get('reason')}: {condition.get('message')}"
