"""``deviceshare explain queue``, ``explain podgroup`` and ``explain job``: shares, members, and why pods wait."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from deviceshare.model import shown, unit_of
from deviceshare_cluster.interface import Object
from deviceshare_metrics import api
from deviceshare_metrics.api_dashboard import Queue

from deviceshare_cli.object_tables import amounts, namespaces_of, podgroups_table, written_at
from deviceshare_cli.output import NONE, Table
from deviceshare_cli.pods import shown_devices
from deviceshare_cli.reading.reader import Reader
from deviceshare_cli.reports import Report, table_lines
from deviceshare_cli.tables import as_of

MAX_REASONS = 10
"""The most reasons of waiting pods that a report names."""


async def explain_queue(reader: Reader, name: str) -> Report | None:
    """Return the report about a queue, None if it does not exist."""
    queue = await reader.object("Queue", "", name)
    if queue is None:
        return None
    shares = await _shares(reader, name)
    pods = [each for each in await reader.items(api.Pod) if each.queue == name]
    groups = [each for each in await reader.objects("PodGroup") if (each.get("spec") or {}).get("queue") == name]
    spec, status = queue.get("spec") or {}, queue.get("status") or {}
    lines = [f"Queue {name}", f"{status.get('state') or 'Open'}, weight {spec.get('weight', 1)}"]
    if served := namespaces_of(queue):
        lines.append(f"Only these namespaces may use it: {served}")
    if obstacle := shares.pop("obstacle"):
        lines.append(f"No pods are served: {obstacle}")
    sections = [
        ("Resources", table_lines(_amounts(shares))),
        ("Pods", _states(pods)),
        ("Waiting pods by reason", _reasons(pods, reader.now)),
        ("PodGroups", table_lines(podgroups_table(groups, False, reader.now))),
    ]
    data = {"queue": queue, "resources": shares, "pods": pods, "podgroups": groups}
    return Report(lines, sections, data)


async def _shares(reader: Reader, name: str) -> dict[str, Any]:
    """Return the account of a queue, as placement computes it."""
    queue = next((each for each in await reader.items(Queue) if each.name == name), None)
    if queue is None:
        return {"obstacle": "", "allocated": {}, "requested": {}, "deserved": {}, "capability": {}}
    return {
        "obstacle": queue.obstacle,
        "allocated": queue.used,
        "requested": queue.requested,
        "deserved": {each: int(amount) for each, amount in queue.deserved.items()},
        "capability": queue.bounds,
    }


def _amounts(shares: dict[str, Any]) -> Table:
    names = sorted({name for each in shares.values() for name, amount in each.items() if amount})
    rows = []
    for name in names:
        cells = (shown(each[name], unit_of(name)) if name in each else NONE for each in shares.values())
        rows.append([name, *cells])
    return ["RESOURCE", *(name.upper() for name in shares)], rows


async def explain_podgroup(reader: Reader, namespace: str, name: str) -> Report | None:
    """Return the report about a PodGroup, None if it does not exist."""
    group = await reader.object("PodGroup", namespace, name)
    return None if group is None else await _of_group(reader, group, [f"PodGroup {namespace}/{name}"], {})


async def explain_job(reader: Reader, namespace: str, name: str) -> Report | None:
    """Return the report about a Job and its PodGroup, None if it does not exist."""
    job = await reader.object("Job", namespace, name)
    if job is None:
        return None
    spec, phase = job.get("spec") or {}, ((job.get("status") or {}).get("state") or {}).get("phase")
    lines = [f"Job {namespace}/{name}", *([phase] if phase else [])]
    tasks = [f"{each.get('name', NONE)}: {each.get('replicas', 1)} pods" for each in spec.get("tasks") or ()]
    uid = job["metadata"].get("uid")
    for group in await reader.objects("PodGroup"):
        if any(owner.get("uid") == uid for owner in group["metadata"].get("ownerReferences") or ()):
            report = await _of_group(reader, group, lines, {"job": job})
            return report._replace(sections=[("Tasks", tasks), *report.sections])
    lines.append("It has no PodGroup yet.")
    return Report(lines, [("Tasks", tasks)], {"job": job})


async def _of_group(reader: Reader, group: Object, lines: Sequence[str], data: dict[str, Any]) -> Report:
    metadata, spec, status = group["metadata"], group.get("spec") or {}, group.get("status") or {}
    key = f"{metadata.get('namespace', '')}/{metadata['name']}"
    pods = [each for each in await reader.items(api.Pod) if each.group == key]
    placed = sum(each.state in ("Claimed", "Bound", "Ended") for each in pods)
    minimum = spec.get("minMember", 1)
    missing = f", {minimum - placed} more are needed" if placed < minimum else ""
    about = [
        f"{status.get('phase') or 'Pending'} in queue {spec.get('queue') or 'default'}",
        f"{placed} of {len(pods)} pods are placed; at least {minimum} are placed together{missing}",
    ]
    if spec.get("minResources"):
        about.append(f"minimum resources: {amounts(spec['minResources'])}")
    conditions = [
        f"{each.get('type')}={each.get('status')} {each.get('reason', '')}: {each.get('message', '')}"
        f"{as_of(written_at(each), reader.now)}"
        for each in status.get("conditions") or ()
    ]
    rows = [(each.name, each.state, each.node or NONE, shown_devices(each.devices) or NONE) for each in pods]
    sections = [
        ("Conditions", conditions),
        ("Waiting pods by reason", _reasons(pods, reader.now)),
        ("Pods", table_lines((("NAME", "STATUS", "NODE", "DEVICES"), rows))),
    ]
    return Report([*lines, *about], sections, {**data, "podgroup": group, "pods": pods})


def _states(pods: Iterable[api.Pod]) -> list[str]:
    return [f"{state}: {count}" for state, count in sorted(Counter(each.state for each in pods).items())]


def _reasons(pods: Iterable[api.Pod], now: float) -> list[str]:
    """Return a line for each reason; of several pods with one reason the oldest one says as of when it is true."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    times: dict[str, float] = {}
    for each in pods:
        if each.state in api.WAITING:
            reason = each.reason or "; ".join(each.problems) or "no decision yet"
            found[reason].append(f"{each.namespace}/{each.name}")
            if each.reason_at:
                times[reason] = min(each.reason_at, times.get(reason, each.reason_at))
    most = sorted(found.items(), key=lambda one: (-len(one[1]), one[0]))
    lines = [
        f"{len(names)} pod(s), such as {names[0]}: {reason}{as_of(times.get(reason, 0.0), now)}"
        if len(names) > 1
        else f"{names[0]}: {reason}{as_of(times.get(reason, 0.0), now)}"
        for reason, names in most[:MAX_REASONS]
    ]
    return lines + ([f"and {len(most) - MAX_REASONS} more reasons"] if len(most) > MAX_REASONS else [])
