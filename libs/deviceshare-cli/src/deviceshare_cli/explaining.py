"""``deviceshare explain``: a pod's node and devices with the reasons, or why it is pending.

Other objects: :mod:`.explaining_devices` and :mod:`.explaining_groups`.
"""

import time
from collections.abc import Sequence

import msgspec
from deviceshare.model import Refusal
from deviceshare.model import shown as amount
from deviceshare_cluster.interface import Object
from deviceshare_metrics import api

from deviceshare_cli.errors import NotFoundError
from deviceshare_cli.notices import to_stderr
from deviceshare_cli.object_tables import amounts
from deviceshare_cli.output import NONE, lines_text, structured, table
from deviceshare_cli.pods import not_placed, shown_device, shown_devices
from deviceshare_cli.reading.kinds import (
    DEVICES,
    JOBS,
    NODES,
    PODGROUPS,
    PODS,
    QUEUES,
    Resource,
    not_found,
    parse_target,
    split_name,
)
from deviceshare_cli.reading.opening import Source, opened
from deviceshare_cli.reading.reader import Reader
from deviceshare_cli.reports import Report, print_report
from deviceshare_cli.tables import age, as_of

_OF_QUEUES = ("Queue", "Cluster")
"""How the codes of refusals by limits of queues begin."""


RESOURCES = (PODS, NODES, DEVICES, QUEUES, PODGROUPS, JOBS)


async def explain(
    source: Source, arguments: Sequence[str], namespace: str | None, output: str, *, preempt: bool = False
) -> int:
    """Print an explanation and return the exit status; ``output`` is ``text``, ``wide``, ``json`` or ``yaml``.

    ``arguments`` are KIND and NAME, or KIND/NAME; ``preempt``: of a pod which others would be evicted for it.
    """
    resource, (name,) = parse_target(arguments, (PODS,) if preempt else RESOURCES)
    where, short = split_name(name, namespace) if resource.namespaced else ("", name)
    async with opened(source) as reader:
        if preempt:
            from deviceshare_cli.whatif.preemption import explain_preemption

            answer = await explain_preemption(reader, where, short)
            if answer is None:
                to_stderr(_missing(reader, await reader.object("Pod", where, short), short))
                return 1
            return print_report(answer, output)
        if resource is PODS:
            return await explain_pod(reader, where, short, output)
        report = await _report(reader, resource, where, short)
        if report is None:
            to_stderr(not_found(resource, short))
            return 1
        return print_report(report, output)


async def _report(reader: Reader, resource: Resource, namespace: str, name: str) -> Report | None:
    from deviceshare_cli import explaining_devices, explaining_groups

    if resource is NODES:
        return await explaining_devices.explain_node(reader, name)
    if resource is DEVICES:
        return await explaining_devices.explain_device(reader, name)
    if resource is QUEUES:
        return await explaining_groups.explain_queue(reader, name)
    if resource is PODGROUPS:
        return await explaining_groups.explain_podgroup(reader, namespace, name)
    return await explaining_groups.explain_job(reader, namespace, name)


async def explain_pod(reader: Reader, namespace: str, name: str, output: str) -> int:
    """Print the explanation of a pod and return the exit status; ``output``: see :func:`explain`."""
    found = await reader.object("Pod", namespace, name)
    annotations: dict[str, str] = (found["metadata"].get("annotations") or {}) if found is not None else {}
    try:
        answer = await reader.explain(namespace, name)
    except NotFoundError:
        to_stderr(_missing(reader, found, name))
        return 1
    data = structured(msgspec.to_builtins(answer) | {"annotations": annotations}, output)
    print(data or explanation_text(f"{namespace}/{name}", answer, found, reader.now, wide=output == "wide"))
    return 0


def _missing(reader: Reader, found: Object | None, name: str) -> str:
    """Return why nothing is known of a pod, whose object may exist."""
    return not_found(PODS, name) if found is None else f"error: {not_placed(found, reader.target.schedulers)}"


def explanation_text(
    ref: str, answer: api.PodExplanation, found: Object | None, now: float, *, wide: bool = False
) -> str:
    """Return the answer as text; empty sections are omitted; what is older than some seconds has its age.

    ``found`` is the Kubernetes object, if it is at hand. ``now`` in unix seconds. ``wide`` adds the closest nodes:
    the resources that each lacks, and the free amounts of its cards.
    """
    lines = [f"Pod {ref}"]
    lines += _where(answer, now)
    lines += _request(found)
    lines += _devices(answer)
    lines += _environment(answer)
    annotations = (found["metadata"].get("annotations") or {}) if found is not None else {}
    lines += _section("Annotations", [f"{key}: {value}" for key, value in sorted(annotations.items())])
    lines += _why(answer, now)
    lines += _refusals(answer)
    lines += _every_check(answer) + _closest(answer) if wide else []
    lines += _group(answer, now)
    lines += _section("Problems", answer.pod.problems if answer.pod else ())
    lines += _steps(answer)
    lines += ["", f"Trace id: {answer.trace_id}"]
    return lines_text(lines)


def _where(answer: api.PodExplanation, now: float) -> list[str]:
    pod, explanation = answer.pod, answer.explanation
    if pod is None:
        remembered = ["  The pod no longer exists. Its last records:"]
        return [*remembered, f"  {explanation.message}"] if explanation else remembered
    nominated = f", nominated on {pod.nominated_node}" if pod.nominated_node else ""
    lines = [f"  {pod.status} on {pod.node}" if pod.node else f"  {pod.status}{nominated}"]
    if pod.reason:
        lines.append(f"  {pod.reason}{as_of(pod.reason_at, now)}")
    elif explanation is not None and not pod.node and explanation.message:
        lines.append(f"  {explanation.message}{as_of(explanation.at, now)}")
    elif explanation is None and not pod.node:
        lines.append("  No decision yet.")
    if pod.fragmented:
        lines.append(
            f"  waits only for fragmentation: enough of {pod.fragmented} is free in sum, not on one node or card"
        )
    if pod.created:
        waiting = "" if pod.waiting_since is None else f", waiting for {age(now - pod.waiting_since)}"
        lines.append(f"  created {_date(pod.created)} UTC{waiting}")
    return lines


def _request(pod: Object | None) -> list[str]:
    """Return what the containers of a pod ask for, its ResourceClaims, its priority and its owner."""
    if pod is None:
        return []
    spec, status, owners = pod.get("spec") or {}, pod.get("status") or {}, pod["metadata"].get("ownerReferences") or ()
    shown = []
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        asked = container.get("resources") or {}
        shown.append(f"{container['name']}: {amounts((asked.get('limits') or {}) | (asked.get('requests') or {}))}")
    made = {each.get("name"): each.get("resourceClaimName") for each in status.get("resourceClaimStatuses") or ()}
    for claim in spec.get("resourceClaims") or ():
        template = claim.get("resourceClaimTemplateName")
        name = claim.get("resourceClaimName") or made.get(claim["name"]) or "not created yet"
        shown.append(f"ResourceClaim {name}{f', of the template {template}' if template else ''}")
    of_class = f" ({spec['priorityClassName']})" if spec.get("priorityClassName") else ""
    shown.append(f"priority {spec.get('priority') or 0}{of_class}")
    shown += [f"owner {each.get('kind')} {each.get('name')}" for each in owners]
    return _section("Request", shown)


def _devices(answer: api.PodExplanation) -> list[str]:
    if answer.pod is None:
        return []
    shown = [f"{one.container}: {shown_device(one)}" for one in answer.pod.devices if one.container]
    shown += [f"ResourceClaim {one.claim}: {one.id}" for one in answer.pod.devices if one.claim]
    plain = [one for one in answer.pod.devices if not one.container and not one.claim]
    shown += [shown_devices(plain)] if plain else []
    return _section("Devices", shown)


def _environment(answer: api.PodExplanation) -> list[str]:
    environment = answer.explanation.environment if answer.explanation else {}
    shown = [
        f"{container}: {name}={value}" for container, values in environment.items() for name, value in values.items()
    ]
    return _section("Environment that the device plugin will inject", shown)


def _why(answer: api.PodExplanation, now: float) -> list[str]:
    explanation = answer.explanation
    if explanation is None or (answer.pod is None and not explanation.node):
        # For a deleted pod only the last message is kept, not the decision.
        return []
    lines = [f"it fits on {explanation.feasible} of {explanation.nodes} nodes"] if explanation.nodes else []
    lines += explanation.why
    if explanation.message and explanation.node:
        lines.append(explanation.message)
    if explanation.kept_for:
        lines.append(f"nodes are kept free for {', '.join(explanation.kept_for)}, which waited too long")
    lines += [f"warning: {caveat}" for caveat in explanation.caveats]
    if explanation.decided_by:
        lines.append(f"decided by {explanation.decided_by} at {_date(explanation.at)}")
    if not explanation.node and (ago := as_of(explanation.at, now)):
        lines.append(f"the numbers of nodes and cards are those of this decision{ago}")
    return _section("Why there" if explanation.node else "Why not", lines)


def _refusals(answer: api.PodExplanation) -> list[str]:
    """Return the reasons: each node under its first failing check, or what holds for every node."""
    explanation = answer.explanation
    if explanation is None:
        return []
    of_every_node = [refusal for refusal in explanation.refusals if not refusal.nodes]
    of_its_queue = [refusal for refusal in of_every_node if refusal.code.startswith(_OF_QUEUES)]
    others = [refusal for refusal in of_every_node if refusal not in of_its_queue]
    return [
        *_section("Infeasible nodes", [_refusal(refusal) for refusal in explanation.first_failing]),
        *_section("Refused by its queue", [_refusal(refusal) for refusal in of_its_queue]),
        *_section("Not decided", [_refusal(refusal) for refusal in others]),
    ]


def _every_check(answer: api.PodExplanation) -> list[str]:
    """Return every failing check; a node counts under each that it fails."""
    refusals = [refusal for refusal in answer.explanation.refusals if refusal.nodes] if answer.explanation else []
    shown = [_refusal(refusal) for refusal in sorted(refusals, key=lambda one: (-one.nodes, one.text))]
    return _section("All failing checks", shown)


def _refusal(refusal: Refusal) -> str:
    closest = f"; the closest is {refusal.nearest}" if refusal.nearest else ""
    cards = "" if not refusal.cards else "; 1 card" if refusal.cards == 1 else f"; {refusal.cards} cards"
    return f"{refusal.code}: {refusal.line}{cards}{closest}"


def _closest(answer: api.PodExplanation) -> list[str]:
    """Return two tables: what each of the closest nodes lacks, and what is free on its cards."""
    nodes = answer.explanation.closest if answer.explanation else ()
    lacks, cards = [], []
    for near in nodes:
        for refusal in near.refusals:
            numbers = [amount(each, refusal.unit) if refusal.asked else NONE for each in (refusal.asked, refusal.free)]
            several = refusal.needed > 1 and refusal.considered
            of_cards = f"{refusal.left} of {refusal.considered} pass" if several else str(refusal.cards or NONE)
            lacks.append((near.node, refusal.code, *numbers, of_cards, refusal.text))
        for card in near.cards:
            free = [f"{card.memory}Mi", str(card.cores), str(card.slots)]
            cards.append((near.node, str(card.index), card.id, *free, ", ".join(card.codes) or NONE))
    lacked = table(("NODE", "CODE", "REQUESTED", "FREE", "CARDS", "REASON"), lacks).splitlines() if lacks else []
    head = ("NODE", "CARD", "ID", "FREE MEMORY", "FREE CORES", "FREE SLOTS", "CODES")
    free_cards = table(head, cards).splitlines() if cards else []
    return _section("Closest nodes", lacked) + _section("Cards of the closest nodes", free_cards)


def _group(answer: api.PodExplanation, now: float) -> list[str]:
    explanation, pod = answer.explanation, answer.pod
    lines = []
    group = (pod.group if pod else "") or (explanation.group if explanation else "")
    if group and not group.startswith("pod/"):
        lines.append(f"gang {group}")
    if explanation and explanation.gang:
        lines.append(explanation.gang)
    queue = (pod.queue if pod else "") or (explanation.queue if explanation else "")
    if queue:
        lines.append(f"queue {queue}{f': {answer.position}' if answer.position is not None else ''}")
    if answer.start is not None:
        lines.append(_start(answer.start, now))
    return _section("Gang and queue", lines)


def _start(start: api.StartTime, now: float) -> str:
    if start.earliest is None or start.latest is None:
        return f"no estimate of when it starts: {start.no_estimate}"
    return f"starts in {age(start.earliest - now)} to {age(start.latest - now)} (some 80% of such ranges are right)"


def _steps(answer: api.PodExplanation) -> list[str]:
    shown = []
    for step in answer.steps:
        where = f" on {step.node}" if step.node else ""
        message = f": {step.message}" if step.message else ""
        shown.append(f"{_date(step.time)}  {step.service:<9}  {step.step}{where}{message}")
    return _section("Steps (UTC)", shown)


def _section(title: str, lines: "list[str] | tuple[str, ...]") -> list[str]:
    return ["", f"{title}:", *(f"  {line}" for line in lines)] if lines else []


def _date(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(at)) + f".{int(at % 1 * 1000):03d}"
