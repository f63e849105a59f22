"""Tables of the items of the JSON API."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from deviceshare_metrics import api

from deviceshare_cli.output import NONE, Table
from deviceshare_cli.pods import counted_devices, shown_devices

if TYPE_CHECKING:
    from deviceshare_cli.whatif.top import ModelTotals

RECENT_SECONDS = 5.0
"""What was true so many seconds ago is shown without its age."""


def nodes_table(nodes: Sequence[api.Node], wide: bool) -> Table:
    """Return the table of nodes."""
    head = ["NAME", "STATUS", "PODS", "CARDS", "CPU", "MEMORY", *(["RESOURCES", "PROBLEMS"] if wide else [])]
    rows = []
    for node in nodes:
        status = ("Ready" if node.ready else "NotReady") + (",SchedulingDisabled" if node.unschedulable else "")
        row = [node.name, status, str(node.pods), str(node.cards)]
        row.append(f"{_cores(node.used.get('cpu', 0))}/{_cores(node.allocatable.get('cpu', 0))}")
        row.append(f"{_gibibytes(node.used.get('memory', 0))}/{_gibibytes(node.allocatable.get('memory', 0))}Gi")
        if wide:
            others = sorted(
                name for name in node.allocatable if name not in ("cpu", "memory", "pods", "ephemeral-storage")
            )
            shown = (f"{name}: {_used_of(node.used.get(name, 0), node.allocatable[name])}" for name in others)
            row += [", ".join(shown) or NONE, "; ".join(node.problems) or NONE]
        rows.append(row)
    return head, rows


def devices_table(devices: Sequence[api.Device], wide: bool) -> Table:
    """Return the table of devices."""
    head = [
        "NODE",
        "ID",
        "MODE",
        "TYPE",
        "HEALTHY",
        "MEMORY",
        "CORES",
        "SHARES",
        *(["INDEX", "CORDONED", "PODS"] if wide else []),
    ]
    rows = []
    for device in devices:
        row = [device.node, device.id, device.mode or NONE, device.type or NONE, health(device)]
        row += [memory(device), cores(device)]
        # If memory alone limits the number of pods on a card, the plugin counts one slot per MiB.
        limited = device.slots_total != device.memory_total
        row.append(f"{device.slots_used}/{device.slots_total}" if limited else str(device.slots_used))
        if wide:
            cordon = (str(device.cordon) or "yes") if device.cordon else NONE
            row += [str(device.index), cordon, ", ".join(device.pods) or NONE]
        rows.append(row)
    return head, rows


def memory(of: "api.Device | ModelTotals") -> str:
    """Return the used and the total memory of devices, as ``1024/8192Mi``: in MiB, as pods request it."""
    return f"{of.memory_used}/{of.memory_total}Mi" if of.memory_total else NONE


def cores(of: "api.Device | ModelTotals") -> str:
    """Return the used and the total cores of devices, as ``30/100``."""
    return f"{of.cores_used}/{of.cores_total}" if of.cores_total else NONE


def health(device: api.Device) -> str:
    """Return whether a device is healthy, and whether it is cordoned, as ``kubectl`` shows the status of a node."""
    return ("yes" if device.healthy else "no") + (",cordoned" if device.cordon else "")


def pods_table(pods: Sequence[api.Pod], wide: bool, now: float) -> Table:
    """Return the table of pods; ``now`` in unix seconds."""
    more = ["NOMINATED NODE", "QUEUE", "GROUP", "SCHEDULER"] if wide else []
    head = ["NAMESPACE", "NAME", "STATUS", "AGE", "WAITING", "NODE", "DEVICES", *more, "REASON"]
    rows = []
    for pod in pods:
        row = [pod.namespace, pod.name, pod.status, _age_at(pod.created, now), _age_at(pod.waiting_since, now)]
        row += [pod.node or NONE, (shown_devices(pod.devices) if wide else counted_devices(pod)) or NONE]
        if wide:
            group = NONE if pod.group.startswith("pod/") else pod.group or NONE
            row += [pod.nominated_node or NONE, pod.queue or NONE, group, pod.scheduler or NONE]
        rows.append([*row, (pod.reason or "; ".join(pod.problems)) + as_of(pod.reason_at, now)])
    return head, list(rows)


def claims_table(claims: Sequence[api.Claim], wide: bool, now: float) -> Table:
    """Return the table of claims; ``now`` in unix seconds."""
    head = ["NODE", "NAMESPACE", "POD", "STATUS", "DEVICES", "AGE", *(["ID", "DECIDED BY"] if wide else []), "REASON"]
    rows = []
    for claim in claims:
        row = [claim.node, claim.namespace, claim.name, claim.state]
        row += [shown_devices(claim.devices) or NONE, age(now - claim.decided_at)]
        if wide:
            row += [claim.id, claim.decided_by or NONE]
        rows.append([*row, claim.reason])
    return head, rows


def age(seconds: float) -> str:
    """Return a duration as ``kubectl`` shows it: ``5s``, ``3m``, ``7h``, ``2d``."""
    seconds = max(0, int(seconds))
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "m")):
        if seconds >= 2 * size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def _age_at(at: float | None, now: float) -> str:
    return NONE if at is None else age(now - at) if at else "<unknown>"


def as_of(at: float, now: float) -> str:
    """Return `` (as of 31m ago)`` for what was true ``at`` (unix seconds), '' for 0 and within the last seconds."""
    return f" (as of {age(now - at)} ago)" if at and now - at >= RECENT_SECONDS else ""


def _used_of(used: int, total: int) -> str:
    return f"{used}/{total}" if used else str(total)


def _cores(millicores: int) -> str:
    return f"{millicores / 1000:g}"


def _gibibytes(amount: int) -> str:
    return f"{amount / 2**30:.1f}".removesuffix(".0")
