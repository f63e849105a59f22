"""``deviceshare describe``: an object with its events, in the form of ``kubectl describe``."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from deviceshare.model import FormatError
from deviceshare_cluster.interface import Object
from deviceshare_metrics import api

from deviceshare_cli import tables
from deviceshare_cli.notices import to_stderr
from deviceshare_cli.object_tables import last_seen, since
from deviceshare_cli.output import NONE, lines_text, table
from deviceshare_cli.pods import shown_devices
from deviceshare_cli.reading.kinds import DESCRIBED, not_found, parse_target, split_name
from deviceshare_cli.reading.opening import Source, opened
from deviceshare_cli.reading.reader import Reader

_HIDDEN = ("managedFields", "name", "namespace", "labels", "annotations")


async def describe(source: Source, arguments: Sequence[str], namespace: str | None) -> int:
    """Print descriptions and return the exit status: 1 if a named object does not exist."""
    target = parse_target(arguments, DESCRIBED)
    resource = target.resource
    found: list[Object] = []
    status = 0
    async with opened(source) as reader:
        for name in target.names:
            where, short = split_name(name, namespace) if resource.namespaced else ("", name)
            one = await reader.object(resource.kind, where, short)
            if one is None:
                to_stderr(not_found(resource, short))
                status = 1
            else:
                found.append(one)
        if not target.names:
            everything = await reader.objects(resource.kind)
            found = [one for one in everything if namespace in (None, one["metadata"].get("namespace"))]
            if not found:
                to_stderr("No resources found" + (f" in {namespace} namespace." if namespace else ""))
        print("\n\n\n".join([await description(reader, one) for one in found]), end="\n" if found else "")
    return status


async def description(reader: Reader, obj: Object) -> str:
    """Return the description of an object."""
    metadata = obj["metadata"]
    fields: dict[str, Any] = {"Name": metadata["name"]}
    if "namespace" in metadata:
        fields["Namespace"] = metadata["namespace"]
    fields["Labels"] = _pairs(metadata.get("labels"), "=")
    fields["Annotations"] = _pairs(metadata.get("annotations"), ": ")
    match obj["kind"]:
        case "Pod":
            fields |= await _pod(reader, obj)
        case "Node":
            fields |= await _node(reader, obj)
        case _:
            fields |= {"API Version": obj["apiVersion"], "Kind": obj["kind"]}
            fields["Metadata"] = _titles({key: value for key, value in metadata.items() if key not in _HIDDEN})
            fields |= {key.title(): _titles(obj[key]) for key in ("spec", "status") if obj.get(key)}
            if obj["kind"] == "ResourceClaim":
                fields["Used By"] = await _users(reader, metadata)
                if binding := _binding(obj):
                    fields["Binding"] = binding
    lines = [*_nested(fields, 0), *await _events(reader, obj)]
    return lines_text(lines)


async def _pod(reader: Reader, pod: Object) -> dict[str, Any]:
    metadata, spec, status = pod["metadata"], pod.get("spec") or {}, pod.get("status") or {}
    shown = next(
        (
            each
            for each in await reader.items(api.Pod)
            if (each.namespace, each.name) == (metadata.get("namespace"), metadata["name"])
        ),
        None,
    )
    fields: dict[str, Any] = {
        "Priority": spec.get("priority", 0),
        "Scheduler": spec.get("schedulerName") or NONE,
        "Node": spec.get("nodeName") or (shown.node if shown is not None and shown.node else NONE),
        "Status": status.get("phase") or "Pending",
    }
    if shown is not None:
        fields["Placement"] = shown.state
        fields["Queue"] = shown.queue or NONE
        fields["Group"] = shown.group or NONE
        fields["Devices"] = shown_devices(shown.devices) or NONE
        if shown.reason:
            fields["Reason"] = shown.reason + tables.as_of(shown.reason_at, reader.now)
        if shown.problems:
            fields["Problems"] = list(shown.problems)
    for title, key in (("Init Containers", "initContainers"), ("Containers", "containers")):
        if spec.get(key):
            fields[title] = {
                each["name"]: {"Image": each.get("image") or NONE, **_titled(each.get("resources") or {})}
                for each in spec[key]
            }
    fields["Conditions"] = _conditions(status, reader.now)
    fields["Node-Selectors"] = _pairs(spec.get("nodeSelector"), "=")
    return fields


async def _node(reader: Reader, node: Object) -> dict[str, Any]:
    name, spec, status = node["metadata"]["name"], node.get("spec") or {}, node.get("status") or {}
    taints = [f"{each.get('key')}={each.get('value', '')}:{each.get('effect')}" for each in spec.get("taints") or ()]
    fields: dict[str, Any] = {"Taints": taints or NONE, "Unschedulable": str(bool(spec.get("unschedulable"))).lower()}
    fields["Conditions"] = _conditions(status, reader.now)
    fields["Allocatable"] = status.get("allocatable") or NONE
    shown = next((each for each in await reader.items(api.Node) if each.name == name), None)
    if shown is not None and shown.problems:
        fields["Problems"] = list(shown.problems)
    devices = [each for each in await reader.items(api.Device) if each.node == name]
    rows = [
        {
            "ID": each.id,
            "Type": each.type,
            "Mode": each.mode,
            "Healthy": "yes" if each.healthy else "no",
            "Memory": tables.memory(each),
            "Cores": tables.cores(each),
        }
        for each in devices
    ]
    fields["Devices"] = _table(("ID", "Type", "Mode", "Healthy", "Memory", "Cores"), rows)
    pods = [each for each in await reader.items(api.Pod) if each.node == name and each.state != "Ended"]
    of_pods = [
        {"Namespace": each.namespace, "Name": each.name, "Status": each.state, "Devices": shown_devices(each.devices)}
        for each in pods
    ]
    fields["Pods"] = _table(("Namespace", "Name", "Status", "Devices"), of_pods)
    return fields


async def _users(reader: Reader, claim: Mapping[str, Any]) -> "_Lines | str":
    """Return the pods that use a ResourceClaim, with the reasons why they wait."""
    pods = [
        {"Pod": each.name, "Status": each.status, "Node": each.node, "Reason": each.reason}
        for each in await reader.items(api.Pod)
        if each.namespace == claim.get("namespace") and claim["name"] in each.resource_claims
    ]
    return _table(("Pod", "Status", "Node", "Reason"), pods)


def _binding(claim: Object) -> str:
    """Return which binding condition of a device keeps the pods of a ResourceClaim from being bound, '' for none."""
    from deviceshare.families.dra import binding_of
    from deviceshare.objects.devices import decode_device_claim

    try:
        binding = binding_of(decode_device_claim(msgspec.json.encode(claim)))
    except FormatError:
        return ""
    return binding.failed or binding.waits


async def _events(reader: Reader, obj: Object) -> list[str]:
    """Return the Events about an object, the latest last."""
    metadata = obj["metadata"]
    about = (obj["kind"], metadata["name"], metadata.get("namespace", ""))
    rows = []
    for event in sorted(await reader.objects("Event"), key=lambda each: last_seen(each) or ""):
        involved = event.get("involvedObject") or {}
        if (involved.get("kind"), involved.get("name"), involved.get("namespace") or "") == about:
            source = (event.get("source") or {}).get("component") or NONE
            age = since(last_seen(event), reader.now)
            rows.append((event.get("type", ""), event.get("reason", ""), age, source, event.get("message", "")))
    if not rows:
        return [f"Events:  {NONE}"]
    return [
        "Events:",
        *(f"  {line}" for line in table(("Type", "Reason", "Age", "From", "Message"), rows).splitlines()),
    ]


def _pairs(values: Mapping[str, Any] | None, sign: str) -> list[str] | str:
    return [f"{key}{sign}{value}" for key, value in sorted((values or {}).items())] or NONE


def _titled(resources: Mapping[str, Any]) -> dict[str, Any]:
    return {key.title(): resources[key] for key in ("limits", "requests") if resources.get(key)}


def _titles(value: Any) -> Any:
    """Return fields with their names as words, ``minMember`` as ``Min Member``; not those of resources."""
    if isinstance(value, list):
        return [_titles(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        re.sub(r"(?<=[a-z])(?=[A-Z])", " ", key).title() if key.isalpha() else key: _titles(each)
        for key, each in value.items()
    }


def _conditions(status: Mapping[str, Any], now: float) -> "_Lines | str":
    """Return the table of conditions, with the age of their status: the message of a condition may be as old."""
    conditions = status.get("conditions") or ()
    rows = [each | {"Since": since(each.get("lastTransitionTime"), now)} for each in conditions]
    return _table(("Type", "Status", "Since", "Reason", "Message"), rows)


class _Lines(tuple[str, ...]):
    """Lines to print below the name of a field."""

    __slots__ = ()


def _table(head: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> _Lines | str:
    """Return the table of rows; their keys are the heads, possibly in lower case."""
    if not rows:
        return NONE
    cells = [[str(row.get(each, row.get(each.lower(), "")) or NONE) for each in head] for row in rows]
    return _Lines(table(head, cells).splitlines())


def _nested(fields: Mapping[str, Any], depth: int) -> list[str]:
    """Return fields as ``kubectl describe`` prints them: nested ones are indented."""
    lines: list[str] = []
    indent = "  " * depth
    plain = [name for name, value in fields.items() if not isinstance(value, dict | _Lines)]
    width = max((len(name) for name in plain), default=0) + 1
    for name, value in fields.items():
        if isinstance(value, _Lines):
            lines += [f"{indent}{name}:", *(f"{indent}  {line}" for line in value)]
        elif isinstance(value, dict):
            lines += [f"{indent}{name}:", *_nested(value, depth + 1)]
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            lines.append(f"{indent}{name}:")
            for each in value:
                lines += _nested(each, depth + 1)
        else:
            first, *more = [str(each) for each in value] if isinstance(value, list) and value else [str(value)]
            pad = " " * (width + 1)
            lines.append(f"{indent}{name + ':':<{width}} {first}")
            lines += [f"{indent}{pad}{each}" for each in more]
    return lines
