"""What is wrong with an object, or has another effect with deviceshare."""

from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec
from deviceshare.model import Problem

Severity = Literal["error", "warning"]


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """A field that is not understood, or that has another effect with deviceshare.

    ``object`` is named as ``kubectl`` does (``Node gpu-1``). An ``error`` changes what is placed; a ``warning`` has no
    effect on valid pods. Without a ``field`` the ``value`` is a sentence. ``others`` are the pods of the same workload
    of which the same is true, ``namespace/name``.
    """

    severity: Severity
    object: str
    field: str
    value: str
    expected: str
    effect: str
    others: tuple[str, ...] = ()


def invalid(where: str, problem: Problem, effect: str) -> Finding:
    """Return the finding of an invalid field of an object."""
    return Finding(
        severity="error", object=where, field=problem.field, value=problem.value, expected=problem.expected,
        effect=effect,
    )  # fmt: skip


def sentence(severity: Severity, where: str, text: str, effect: str) -> Finding:
    """Return the finding that a sentence describes."""
    return Finding(severity=severity, object=where, field="", value=text, expected="", effect=effect)


def grouped(findings: Iterable[Finding], owners: Mapping[str, str]) -> tuple[Finding, ...]:
    """Return findings in order, each once; equal ones about pods of one workload are one.

    ``owners``: the uid of the workload of a pod by ``Pod namespace/name``.
    """
    by_cause: dict[tuple[str, ...], list[Finding]] = {}
    for each in dict.fromkeys(sorted(findings, key=lambda each: (each.severity, each.object, each.field))):
        owner = owners.get(each.object, each.object)
        value = each.value.removeprefix(f"{each.object}: ")
        by_cause.setdefault((owner, each.severity, each.field, value, each.expected, each.effect), []).append(each)
    return tuple(
        msgspec.structs.replace(first, others=tuple(each.object.partition(" ")[2] for each in others))
        for first, *others in by_cause.values()
    )
