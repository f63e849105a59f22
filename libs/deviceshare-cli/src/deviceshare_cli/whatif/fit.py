"""``deviceshare fit``: whether pods fit now, where, and how many more; else what is missing and who holds it."""

import time
from collections.abc import Sequence
from typing import Any

import msgspec
from deviceshare.allocation import Placement, Unplaceable
from deviceshare.model import PodFact
from deviceshare_bus.runtime.garbage import uncollected
from deviceshare_metrics.api import PodDevice, decided_devices
from msgspec.structs import replace

from deviceshare_cli.notices import to_stderr
from deviceshare_cli.output import NONE, indented_json, lines_text, table
from deviceshare_cli.pods import devices_of, shown_devices
from deviceshare_cli.reading.opening import Source, opened
from deviceshare_cli.reading.state import PLACEMENT_STREAMS, scheduler_of
from deviceshare_cli.whatif.addition import slices_like
from deviceshare_cli.whatif.changed_cluster import ClusterChanges, change_cluster
from deviceshare_cli.whatif.fitting import Fit, Fits, by_node, fit
from deviceshare_cli.whatif.manifests import read_files
from deviceshare_cli.whatif.missing import Holder, holders
from deviceshare_cli.whatif.resource_claims import device_objects, with_resource_claims
from deviceshare_cli.whatif.unknown_claims import without_unknown_claims

MAX_SHOWN = 20
"""The most placed pods that the text lists."""


async def run_fit(
    source: Source, paths: Sequence[str], count: int, limit: int, output: str, changes: ClusterChanges
) -> int:
    """Print whether the pods of files fit in a cluster after changes, and return the exit status: 1 if they do not."""
    with uncollected(until_exit=True):
        return await _run_fit(source, paths, count, limit, output, changes)


async def _run_fit(
    source: Source, paths: Sequence[str], count: int, limit: int, output: str, changes: ClusterChanges
) -> int:
    async with opened(source) as reader:
        files = read_files(paths, await reader.objects("PriorityClass"), reader.target.schedulers)
        for warning in (each for candidate in files.candidates for each in candidate.warnings):
            to_stderr(f"Warning: {warning}")
        scheduler = scheduler_of(await reader.messages(PLACEMENT_STREAMS), reader.now)
        now, objects = reader.now, await device_objects(reader, files.candidates)
    added = change_cluster(scheduler, changes, now)
    if objects:
        objects["ResourceSlice"] += slices_like(objects["ResourceSlice"], changes.addition.like, added)
    wanted = with_resource_claims(files, objects, scheduler, now)
    wanted, warning = without_unknown_claims(wanted, scheduler.catalog)
    if warning:
        to_stderr(f"Warning: {warning}")
    pending = sum(record.waits for record in scheduler.pods.values())
    began = time.perf_counter()
    fits = fit(scheduler, wanted, count, 0, now)
    decided = time.perf_counter() - began
    more = (
        fit(scheduler, [each.copy(count) for each in wanted], 0, limit, now)
        if all(each.whole for each in fits.asked)
        else None
    )
    failed = next((each for each in fits.asked if not each.fits), None)
    holding = holders(scheduler, failed) if failed is not None else []
    if more is not None:
        fits = fits._replace(more=more.more, most=more.most)
    if output == "json":
        print(indented_json(_data(fits, holding, pending, decided)))
    else:
        print(_text(fits, count * len(wanted), holding, pending, decided))
    return int(failed is not None)


def _text(fits: Fits, wanted: int, holding: Sequence[Holder], pending: int, decided: float) -> str:
    failed = next((each for each in fits.asked if not each.fits), None)
    lines = []
    if failed is None:
        more = f"{'at least ' if fits.most else ''}{fits.more} more" if fits.more else "no more"
        lines.append(f"Fits now: {fits.fitting} of {wanted}; {more} would fit after it.")
    else:
        lines.append(f"Does not fit now: {fits.fitting} of {wanted} fit.")
    lines += [
        f"Of a gang only {len(each.placed)} pods fit, which is its minimum: {each.message}"
        for each in fits.asked
        if each.fits and not each.whole
    ]
    if any(each.borrows for each in fits.asked):
        lines.append("The queue would exceed what it deserves, which it may while no other queue waits for it.")
    if pending:
        lines.append(
            f"{pending} pods are pending in the cluster; their turn may come first, they are not counted here."
        )
    lines.append(f"Decided in {decided * 1000:.1f} ms.")
    placed = [
        (pod.namespace, pod.name, placement.node, shown_devices(_devices(pod, placement)) or NONE)
        for each in fits.asked
        for pod, placement in each.placed
    ]
    if placed:
        lines += ["", *table(("NAMESPACE", "NAME", "NODE", "DEVICES"), placed[:MAX_SHOWN]).splitlines()]
    if len(placed) > MAX_SHOWN:
        counts = by_node(fits.asked)
        shown = ", ".join(f"{node}: {number}" for node, number in list(counts.items())[:MAX_SHOWN])
        lines.append(
            f"and {len(placed) - MAX_SHOWN} more; pods by node: {shown}{', …' if len(counts) > MAX_SHOWN else ''}"
        )
    lines += _why_not(failed, holding) if failed is not None else []
    return lines_text(lines)


def _devices(pod: PodFact, placement: Placement) -> tuple[PodDevice, ...]:
    """Return what a pod would get: cards, and devices of ResourceClaims."""
    if not placement.devices:  # claims are not served
        return devices_of(placement.grants)
    keys = (f"{pod.namespace}/{pod.name}-{use.name}" if use.template else use.claim for use in pod.device_claims)
    decided = (replace(each, key=key) for key, each in zip(keys, placement.devices, strict=True))
    return devices_of(placement.grants) + decided_devices(decided)


def _why_not(failed: Fit, holding: Sequence[Holder]) -> list[str]:
    lines = ["", "Missing:", f"  {failed.message}"]
    if isinstance(failed.reason, Unplaceable):
        lines += [
            f"  closest: {near.node}: {'; '.join(refusal.line for refusal in near.refusals)}"
            for near in failed.reason.closest
        ]
    if holding:
        lines += ["", "Held by:"]
        lines += [f"  {line}" for line in table(("WHERE", "POD", "HOLDS"), holding).splitlines()]
    return lines


def _data(fits: Fits, holding: Sequence[Holder], pending: int, decided: float) -> dict[str, Any]:
    failed = next((each for each in fits.asked if not each.fits), None)
    return {
        "fits": failed is None,
        "fitting": fits.fitting,
        "more": fits.more,
        "more_is_limited": fits.most,
        "borrows": any(each.borrows for each in fits.asked),
        "placed": [
            {
                "namespace": pod.namespace,
                "name": pod.name,
                "node": placement.node,
                "devices": _devices(pod, placement),
                "feasible_nodes": placement.feasible,
            }
            for each in fits.asked
            for pod, placement in each.placed
        ],
        "message": failed.message if failed is not None else "",
        "refusals": failed.reason.refusals if failed is not None and isinstance(failed.reason, Unplaceable) else (),
        "closest": failed.reason.closest if failed is not None and isinstance(failed.reason, Unplaceable) else (),
        "shortage": msgspec.to_builtins(failed.reason)
        if failed is not None and failed.reason is not None and not isinstance(failed.reason, Unplaceable)
        else None,
        "held_by": [each._asdict() for each in holding],
        "pending_pods": pending,
        "decision_seconds": round(decided, 6),
    }
