"""Reads a cluster or files, inspects the objects and prints the result."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from deviceshare_bus.plugins import load_families
from deviceshare_cluster.interface import ClusterError

from deviceshare_cli.checking.inspection import KINDS, Finding, Inspection, inspect
from deviceshare_cli.errors import CommandError
from deviceshare_cli.output import NONE, indented_json, printable, table

FOUND = 3
"""The exit status if something is not understood, or would change."""
_LONG = 60
_NAMESPACED = ("Pod", "PodGroup", "ConfigMap")


class Options(NamedTuple):
    """The options of the command: a live cluster by kubeconfig and context, or files."""

    kubeconfig: str
    context: str
    files: tuple[str, ...]
    schedulers: tuple[str, ...]
    output: str


async def check(options: Options) -> int:
    """Print the result and return the exit status. Raises CommandError."""
    load_families()
    objects = _read(options.files) if options.files else await _list(options.kubeconfig, options.context)
    result = inspect(objects, options.schedulers)
    print(indented_json(result) if options.output == "json" else _text(result))
    return FOUND if any(each.severity == "error" for each in result.findings) else 0


async def _list(kubeconfig: str, context: str) -> dict[str, Sequence[Mapping[str, Any]]]:
    from deviceshare_cluster.kube import KubeCluster

    try:
        async with KubeCluster(kubeconfig, context, name="deviceshare-check") as cluster:
            return {kind: await cluster.list(kind) for kind in KINDS}
    except ClusterError as error:
        raise CommandError(str(error)) from None


def _read(paths: Sequence[str]) -> dict[str, Sequence[Mapping[str, Any]]]:
    from deviceshare_cli.loading import read

    for path in paths:
        if path != "-" and not Path(path).exists():
            raise CommandError(f"{path} does not exist")
    found: defaultdict[str, list[Mapping[str, Any]]] = defaultdict(list)
    manifests = read(paths)
    if manifests.problems:
        raise CommandError("; ".join(map(str, manifests.problems)))
    for manifest in manifests.manifests:
        obj = manifest.object
        metadata = obj.get("metadata")
        kind = str(obj.get("kind", ""))
        if isinstance(metadata, dict) and kind in _NAMESPACED:
            obj = {**obj, "metadata": {"namespace": "default", "uid": f"{len(found[kind])}-{kind}", **metadata}}
        found[kind].append(obj)
    return dict(found)


def _text(result: Inspection) -> str:
    rows = [
        [kind, str(number), str(result.understood[kind]), str(number - result.understood[kind])]
        for kind, number in result.objects.items()
    ]
    parts = [table(("KIND", "OBJECTS", "UNDERSTOOD", "WITH FINDINGS"), rows)]
    shown = {"Cards": result.cards, "Pods that request devices, by scheduler": result.requests}
    for title, numbers in shown.items():
        listed = ", ".join(f"{number} {name or NONE}" for name, number in numbers.items())
        parts.append(printable(f"{title}: {listed or NONE}"))
    parts.append(printable(f"Configuration: {result.configuration}"))
    if result.components:
        components = [
            [each.name, each.namespace, str(each.pods), each.image, each.advice] for each in result.components
        ]
        parts.append(table(("COMPONENT", "NAMESPACE", "PODS", "IMAGE", "ADVICE"), components))
    if not result.findings:
        return "\n\n".join([*parts, "Everything is understood."])
    return "\n\n".join([*parts, "\n".join(printable(_line(each)) for each in result.findings)])


def _line(finding: Finding) -> str:
    if not finding.field:
        return f"{finding.severity}: {finding.value} ({finding.object}): {finding.effect}"
    value = finding.value if len(finding.value) <= _LONG else f"{finding.value[: _LONG - 3]}..."
    shown = f" {value!r}" if value else ""
    expected = f"; expected {finding.expected}" if finding.expected else ""
    return f"{finding.severity}: {finding.object}: {finding.field}{shown}{expected}: {finding.effect}"
