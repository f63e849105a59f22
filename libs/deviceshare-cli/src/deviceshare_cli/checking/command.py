"""Reads a cluster or files, inspects the objects and prints the result."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from deviceshare.model import ConfigError, visible
from deviceshare.objects import KINDS
from deviceshare_bus.runtime.plugins import load_families

from deviceshare_cli.checking.findings import Finding
from deviceshare_cli.checking.inspection import NO_CONF, Inspection, inspect
from deviceshare_cli.checking.manifests import Given, of_manifests, with_jobs
from deviceshare_cli.errors import CommandError
from deviceshare_cli.loading import read, read_conf
from deviceshare_cli.output import NONE, indented_json, lines_text, table
from deviceshare_cli.reading.kube_objects import list_kinds

FOUND = 3
"""The exit status if something is not understood, or would change."""
_LONG = 60
_MAX_OTHERS = 3
"""The most further pods that a line names."""


class CheckOptions(NamedTuple):
    """The options of the command: a live cluster by kubeconfig and context, or files."""

    kubeconfig: str
    context: str
    files: tuple[str, ...]
    schedulers: tuple[str, ...]
    output: str
    conf: Path | None = None


async def check(options: CheckOptions) -> int:
    """Print the result and return the exit status. Raises CommandError."""
    load_families()
    now = time.time()
    try:
        conf = read_conf(options.conf) if options.conf is not None else NO_CONF
    except ConfigError as error:
        raise CommandError(" ".join(str(error).split())) from None
    if options.files:
        given = _read(options.files, now)
    else:
        given = with_jobs(await list_kinds((*KINDS, "Job"), "check", options.kubeconfig, options.context), now)
    result = inspect(given, options.schedulers, now, conf)
    print(indented_json(result) if options.output == "json" else _text(result))
    return FOUND if any(each.severity == "error" for each in result.findings) else 0


def _read(paths: Sequence[str], now: float) -> Given:
    for path in paths:
        if path != "-" and not Path(path).exists():
            raise CommandError(f"{path} does not exist")
    return of_manifests(read(paths), now)


def _text(result: Inspection) -> str:
    rows = [
        [kind, str(number), str(result.understood[kind]), str(number - result.understood[kind])]
        for kind, number in result.objects.items()
    ]
    parts = [table(("KIND", "OBJECTS", "UNDERSTOOD", "WITH ERRORS"), rows)]
    shown = {"Cards": result.cards, "Pods that request devices, by scheduler": result.requests}
    for title, numbers in shown.items():
        listed = ", ".join(f"{number} {name or NONE}" for name, number in numbers.items())
        parts.append(visible(f"{title}: {listed or NONE}"))
    parts.append(visible(f"Configuration: {result.configuration}"))
    if result.components:
        components = [
            [each.name, each.namespace, str(each.pods), each.image, each.advice] for each in result.components
        ]
        parts.append(table(("COMPONENT", "NAMESPACE", "PODS", "IMAGE", "ADVICE"), components))
    if result.skipped:
        listed = ", ".join(f"{number} {kind}" for kind, number in sorted(result.skipped.items()))
        parts.append(visible(f"Skipped, since nothing is decided by them: {listed}"))
    if not result.findings:
        return "\n\n".join([*parts, f"Everything{' that was inspected' * bool(result.skipped)} is understood."])
    return "\n\n".join([*parts, lines_text(map(_line, result.findings))])


def _line(finding: Finding) -> str:
    where = finding.object
    if finding.others:
        named = ", ".join(finding.others[:_MAX_OTHERS])
        where += f" (and {len(finding.others)} more: {named}{', …' if len(finding.others) > _MAX_OTHERS else ''})"
    if not finding.field:
        text = finding.value.removeprefix(f"{finding.object}: ")
        return f"{finding.severity}: {': '.join(filter(None, (where, text, finding.effect)))}"
    value = finding.value if len(finding.value) <= _LONG else f"{finding.value[: _LONG - 3]}..."
    shown = f" {value!r}" if value else ""
    expected = f"; expected {finding.expected}" if finding.expected else ""
    return f"{finding.severity}: {where}: {finding.field}{shown}{expected}: {finding.effect}"
