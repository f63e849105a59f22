"""``deviceshare get``: resources as a table, JSON, YAML or names, with the options of ``kubectl get``."""

import asyncio
import re
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec
from deviceshare.model import visible
from deviceshare_cluster.interface import Object
from deviceshare_metrics import api
from deviceshare_metrics.api_dashboard import Queue

from deviceshare_cli import object_tables, resource_claim_tables, tables, volume_tables
from deviceshare_cli.errors import CommandError
from deviceshare_cli.notices import to_stderr
from deviceshare_cli.output import Table, aligned, cut, indented_json, shrunk, widths_of, yaml_text
from deviceshare_cli.pods import unlisted
from deviceshare_cli.reading.filters import Filters, item_filter, matches, parse_field_selector
from deviceshare_cli.reading.kinds import (
    BUDGETS,
    CLAIM_TEMPLATES,
    CLAIMS,
    DEVICE_CLASSES,
    DEVICES,
    EVENTS,
    JOBS,
    NODES,
    PODGROUPS,
    PODS,
    QUEUES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    STORAGE_CLASSES,
    VOLUME_CLAIMS,
    VOLUMES,
    Resource,
    Target,
    not_found,
    parse_target,
    split_name,
)
from deviceshare_cli.reading.opening import Source, opened
from deviceshare_cli.reading.reader import Reader
from deviceshare_cli.reading.selectors import parse_selector
from deviceshare_cli.reading.sorting import sort_by

WATCH_INTERVAL = 1.0
"""Seconds between two reads of ``-w``."""


@dataclass(frozen=True)
class GetOptions:
    """The options of ``get``."""

    namespace: str | None = None
    """None: all namespaces, or ``default`` for a name."""
    every_namespace: bool = False
    selector: str = ""
    filters: Filters = field(default_factory=Filters)
    output: str = "table"
    """``table``, ``wide``, ``json``, ``yaml`` or ``name``."""
    sort: str = ""
    watch: bool = False
    headers: bool = True


class Entry(NamedTuple):
    """One item: as the JSON API or the cluster gives it, and as a row of the table."""

    namespace: str
    name: str
    other_names: tuple[str, ...]
    item: Any
    row: Sequence[str]

    @property
    def key(self) -> tuple[str, ...]:
        """What identifies the item."""
        return (self.namespace, self.name, *self.other_names)

    def is_same(self, other: "Entry") -> bool:
        """Return whether two entries show the same; a reason that is decided again is, although it is more recent."""
        return _without_times(self.item) == _without_times(other.item)


def _without_times(item: Any) -> object:
    return msgspec.structs.replace(item, reason_at=0.0) if isinstance(item, api.Pod) else item


class Listing(NamedTuple):
    """The head of the table, and the entries."""

    head: Sequence[str]
    entries: list[Entry]


async def get(source: Source, arguments: Sequence[str], options: GetOptions) -> int:
    """Print resources and return the exit status: 1 if a named one does not exist."""
    if "," in (kinds := arguments[0]) and "/" not in kinds:
        return await _get_each(source, kinds.split(","), arguments[1:], options)
    target = parse_target(arguments)
    if target.names and options.every_namespace:
        raise CommandError("a resource cannot be retrieved by name across all namespaces")
    if target.names and (options.selector or options.filters != Filters()):
        raise CommandError("name cannot be provided when a selector is specified")
    if options.watch and source.snapshot is not None:
        raise CommandError("--watch needs a running system: a snapshot does not change")
    async with opened(source) as reader:
        listing, status = await _find(reader, target, options)
        if options.watch and not status:
            await _watch(reader, target, options, listing)
        await _print(reader, target, listing, options)
        return status


async def _get_each(source: Source, kinds: Sequence[str], names: Sequence[str], options: GetOptions) -> int:
    """Print the resources of several kinds, one table after the other, and return the exit status."""
    if options.watch or options.output in ("json", "yaml"):
        raise CommandError("you may only specify a single resource type with -w, -o json and -o yaml")
    status = 0
    for at, kind in enumerate(kinds):
        if at and options.output != "name":
            print()
        status = max(status, await get(source, [kind, *names], options))
    return status


async def _find(reader: Reader, target: Target, options: GetOptions) -> tuple[Listing, int]:
    """Return the chosen entries in their order, and the exit status."""
    resource = target.resource
    found = await list_entries(reader, resource, wide=options.output == "wide")
    chosen, status = found.entries, 0
    if target.names:
        chosen, missing = _named(resource, chosen, target.names, options.namespace)
        for namespace, name in missing:
            entry = await _unlisted(reader, resource, namespace, name, wide=options.output == "wide")
            if entry is not None:
                chosen.append(entry)
            else:
                to_stderr(not_found(resource, name))
                status = 1
    elif resource.namespaced and options.namespace is not None:
        chosen = [entry for entry in chosen if entry.namespace == options.namespace]
    keeps = item_filter(options.filters, resource)
    for term in parse_field_selector(options.filters.fields) if options.filters.fields else ():
        # All objects are looked at: whether a field exists does not depend on the other options.
        kept = matches(await _fields(reader, resource, found.entries, term.name), term)
        having = {entry.key for entry, has in zip(found.entries, kept, strict=True) if has}
        chosen = [entry for entry in chosen if entry.key in having]
    chosen = [entry for entry in chosen if keeps(entry.item)]
    if options.selector:
        terms = parse_selector(options.selector)
        labels = await _labels(reader, resource)
        chosen = [
            entry
            for entry in chosen
            if all(term.matches(labels.get(_object_key(resource, entry), {})) for term in terms)
        ]
    if options.sort:
        chosen = sort_by(chosen, await _fields(reader, resource, chosen, options.sort), options.sort)
    return Listing(found.head, chosen), status


def _named(
    resource: Resource, entries: Sequence[Entry], names: Sequence[str], namespace: str | None
) -> tuple[list[Entry], list[tuple[str, str]]]:
    """Return the entries with these names, and the names without one."""
    chosen: list[Entry] = []
    missing = []
    for each in names:
        if resource.namespaced:
            where, name = split_name(each, namespace)
            found = [one for one in entries if one.namespace == where and name in (one.name, *one.other_names)]
        else:
            where, name = "", each
            found = [one for one in entries if name in (one.name, *one.other_names)]
        chosen += found
        if not found:
            missing.append((where, name))
    return chosen, missing


async def _unlisted(reader: Reader, resource: Resource, namespace: str, name: str, *, wide: bool) -> Entry | None:
    """Return a pod that exists in the cluster, and is not in the list of the JSON API."""
    if resource is not PODS or (found := await reader.object("Pod", namespace, name)) is None:
        return None
    pod = unlisted(found, reader.target.schedulers)
    return _listing(tables.pods_table([pod], wide, reader.now), [(pod.namespace, pod.name, ())], [pod]).entries[0]


async def list_entries(reader: Reader, resource: Resource, *, wide: bool) -> Listing:
    """Return all entries of a resource, with the table's rows."""
    if resource is NODES:
        nodes = await reader.items(api.Node)
        return _listing(tables.nodes_table(nodes, wide), [("", each.name, ()) for each in nodes], nodes)
    if resource is DEVICES:
        devices = await reader.items(api.Device)
        ids = [("", f"{each.node}/{each.id}", (each.id,)) for each in devices]
        return _listing(tables.devices_table(devices, wide), ids, devices)
    if resource is PODS:
        pods = await reader.items(api.Pod)
        return _listing(
            tables.pods_table(pods, wide, reader.now), [(each.namespace, each.name, ()) for each in pods], pods
        )
    if resource is CLAIMS:
        claims = await reader.items(api.Claim)
        of_claims = [(each.namespace, each.name, (each.id,)) for each in claims]
        return _listing(tables.claims_table(claims, wide, reader.now), of_claims, claims)
    objects = await reader.objects(resource.kind)
    if resource is EVENTS:
        objects.sort(key=lambda each: object_tables.last_seen(each) or "")
    of_objects = [(each["metadata"].get("namespace", ""), each["metadata"]["name"], ()) for each in objects]
    if resource is QUEUES:
        of_queues = {each.name: each.pods for each in await reader.items(Queue)}
        return _listing(object_tables.queues_table(objects, of_queues, wide), of_objects, objects)
    return _listing(_TABLES[resource](objects, reader.now, wide), of_objects, objects)


_TABLES: Mapping[Resource, Callable[[Sequence[Object], float, bool], Table]] = {
    PODGROUPS: lambda objects, now, wide: object_tables.podgroups_table(objects, wide, now),
    JOBS: lambda objects, now, _: object_tables.jobs_table(objects, now),
    EVENTS: lambda objects, now, wide: object_tables.events_table(objects, now, wide),
    BUDGETS: lambda objects, now, _: object_tables.budgets_table(objects, now),
    VOLUME_CLAIMS: lambda objects, now, _: volume_tables.claims_table(objects, now),
    VOLUMES: lambda objects, now, _: volume_tables.volumes_table(objects, now),
    STORAGE_CLASSES: lambda objects, now, _: volume_tables.classes_table(objects, now),
    RESOURCE_CLAIMS: lambda objects, now, wide: resource_claim_tables.resource_claims_table(objects, now, wide=wide),
    CLAIM_TEMPLATES: lambda objects, now, wide: resource_claim_tables.templates_table(objects, now, wide=wide),
    DEVICE_CLASSES: lambda objects, now, wide: resource_claim_tables.device_classes_table(objects, now, wide=wide),
    RESOURCE_SLICES: lambda objects, now, wide: resource_claim_tables.resource_slices_table(objects, now, wide=wide),
}
"""The tables of Kubernetes objects that need nothing else: objects, now, wide."""


def _listing(shown: Table, names: Sequence[tuple[str, str, tuple[str, ...]]], items: Sequence[Any]) -> Listing:
    head, rows = shown
    entries = [Entry(*name, item, row) for name, item, row in zip(names, items, rows, strict=True)]
    return Listing(head, entries)


def _object_key(resource: Resource, entry: Entry) -> tuple[str, str]:
    """Return namespace and name of the Kubernetes object that has the labels of an entry."""
    return ("", entry.item.node) if resource is DEVICES else (entry.namespace, entry.name)


async def _objects(reader: Reader, resource: Resource) -> dict[tuple[str, str], Object]:
    """Return the Kubernetes objects of entries: a claim's is its pod, a device's is its node."""
    kind = {DEVICES: "Node", CLAIMS: "Pod"}.get(resource, resource.kind)
    objects = await reader.objects(kind)
    return {(each["metadata"].get("namespace", ""), each["metadata"]["name"]): each for each in objects}


async def _labels(reader: Reader, resource: Resource) -> dict[tuple[str, str], Mapping[str, str]]:
    return {key: found["metadata"].get("labels") or {} for key, found in (await _objects(reader, resource)).items()}


async def _fields(reader: Reader, resource: Resource, entries: Sequence[Entry], path: str) -> list[Any]:
    """Return the entries as builtins: as the Kubernetes objects if a path starts like one of their fields."""
    if resource not in (DEVICES, CLAIMS) and re.match(r"[{. ]*(metadata|spec|status)\.", path):
        objects = await _objects(reader, resource)
        return [objects.get(_object_key(resource, entry), {}) for entry in entries]
    return [msgspec.to_builtins(entry.item) for entry in entries]


async def _print(reader: Reader, target: Target, listing: Listing, options: GetOptions) -> None:
    entries, resource = listing.entries, target.resource
    one = len(target.names) == 1 and len(entries) == 1
    if target.names and not entries:
        return
    if options.output == "json":
        print(indented_json(entries[0].item if one else {"items": [entry.item for entry in entries]}))
    elif options.output == "yaml":
        print(yaml_text(await _as_objects(reader, resource, entries, one=one)), end="")
    elif not entries:
        to_stderr("No resources found" + (f" in {options.namespace} namespace." if options.namespace else ""))
    elif options.output == "name":
        for entry in entries:
            print(visible(resource.title(entry.name)))
    else:
        rows = [entry.row for entry in entries]
        lines = [listing.head, *rows] if options.headers else rows
        widths = widths_of(lines)
        if options.output == "table" and sys.stdout.isatty():
            widths = shrunk(widths, [len(name) for name in listing.head], shutil.get_terminal_size().columns)
            lines = [[cut(text, width) for text, width in zip(line, widths, strict=True)] for line in lines]
        print("\n".join(aligned(lines, widths)))


async def _as_objects(reader: Reader, resource: Resource, entries: Sequence[Entry], *, one: bool) -> Any:
    """Return the Kubernetes objects of entries; for devices and claims, which have none, the items."""
    if resource in (DEVICES, CLAIMS):
        found: list[Any] = [msgspec.to_builtins(entry.item) for entry in entries]
        return found[0] if one else {"items": found}
    if resource in (NODES, PODS):
        objects = await _objects(reader, resource)
        found = [objects[entry.namespace, entry.name] for entry in entries if entry.key[:2] in objects]
    else:
        found = [entry.item for entry in entries]
    if one and found:
        return found[0]
    return {"apiVersion": "v1", "items": found, "kind": "List", "metadata": {"resourceVersion": ""}}


async def _watch(reader: Reader, target: Target, options: GetOptions, listing: Listing) -> None:
    """Print the entries, then each one that changes, until interrupted."""
    lines = [listing.head, *(entry.row for entry in listing.entries)]
    widths = widths_of(lines)
    shown: dict[tuple[str, ...], Entry] = {}
    if options.output in ("table", "wide") and options.headers:
        print("\n".join(aligned([listing.head], widths)), flush=True)
    while True:
        current = {entry.key: entry for entry in listing.entries}
        changed = [entry for key, entry in current.items() if key not in shown or not shown[key].is_same(entry)]
        # An entry that is gone is shown once more, as kubectl does.
        for entry in [*changed, *(entry for key, entry in shown.items() if key not in current)]:
            if options.output == "json":
                print(indented_json(entry.item), flush=True)
            elif options.output == "yaml":
                print(
                    "---\n" + yaml_text(await _as_objects(reader, target.resource, [entry], one=True)),
                    end="",
                    flush=True,
                )
            elif options.output == "name":
                print(visible(target.resource.title(entry.name)), flush=True)
            else:
                print("\n".join(aligned([entry.row], widths)), flush=True)
        shown = current
        await asyncio.sleep(WATCH_INTERVAL)
        everything = await list_entries(reader, target.resource, wide=options.output == "wide")
        listing = await _again(reader, target, options, everything)


async def _again(reader: Reader, target: Target, options: GetOptions, everything: Listing) -> Listing:
    """Return the chosen ones of the current entries; names that do not exist (any more) are no errors."""
    if target.names:
        chosen, missing = _named(target.resource, everything.entries, target.names, options.namespace)
        for where, name in missing:
            entry = await _unlisted(reader, target.resource, where, name, wide=options.output == "wide")
            chosen += [entry] if entry is not None else []
        return Listing(everything.head, chosen)
    return (await _find(reader, target, options))[0]
