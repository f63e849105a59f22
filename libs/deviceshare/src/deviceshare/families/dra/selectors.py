"""Selectors of devices: CEL expressions, evaluated once for each expression and all that it can see of a device."""

import re
from collections.abc import Callable
from typing import Any, Protocol

from deviceshare.families.dra.errors import AllocationError
from deviceshare.model import parse_quantity
from deviceshare.model.device_objects import Attribute, Device

MAX_RESULTS = 200_000
"""Results that are kept; beyond, all are forgotten."""
MAX_COMPILED = 4_096
"""Compiled expressions that are kept; beyond, all are forgotten."""
UNAVAILABLE = "claims with selectors need the optional package deviceshare[dra]"
"""Why they are refused without it."""

Outcome = bool | tuple[str, str]
"""True, false, or the kind of an error and its text."""

_LITERAL = re.compile(r"\"((?:[^\"\\]|\\.)*)\"|'((?:[^'\\]|\\.)*)'")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_WALKS = frozenset(
    [
        "all",
        "exists",
        "exists_one",
        "existsOne",
        "map",
        "filter",
        "size",
        "bind",
        "sets",
        "transformList",
        "transformMap",
        "transformMapEntry",
        "optMap",
        "optFlatMap",
        "string",
        "dyn",
    ]
)
"""Words of expressions that may look at attributes which they do not name."""
_STEP = r"(?:\s*\.\s*[A-Za-z_]\w*|\s*\[\s*(?:\"[^\"\\]*\"|'[^'\\]*')\s*\])"
_NAMED = re.compile(rf"\bdevice\s*\.\s*(?:attributes|capacity){_STEP}{_STEP}")
_MAPS = re.compile(r"\b(?:attributes|capacity)\b")


class Evaluator(Protocol):
    """A library that evaluates CEL."""

    def compile(self, expression: str) -> Any:
        """Return a compiled expression.

        Raises:
            AllocationError: the expression is invalid, or uses what the library lacks.
        """

    def evaluate(self, compiled: Any, device: dict[str, Any]) -> Outcome:
        """Return whether a device matches, or why this is not known."""


class Selectors:
    """Evaluates expressions on devices; equal views of devices share a result."""

    def __init__(self, evaluator: Evaluator | None) -> None:
        """Without an evaluator every claim with selectors is refused by name."""
        self._evaluator = evaluator
        self._compiled: dict[str, tuple[Any, frozenset[str], bool] | AllocationError] = {}
        self._results: dict[Any, Outcome] = {}
        self.evaluations = 0
        """Evaluations so far."""

    def matches(self, expression: str, driver: str, device: Device, multiple: bool) -> Outcome:
        """Return whether a device of a driver matches, or the kind of an error and its text.

        ``multiple``: the feature ConsumableCapacity is on.
        """
        compiled = self._compile(expression)
        if isinstance(compiled, AllocationError):
            return compiled.kind, compiled.text
        program, names, walks = compiled
        for name, attribute in device.attributes.items():
            if attribute_value(attribute) is None:
                return "cel-runtime", f"attribute {name}: unsupported attribute value"

        def seen(name: str) -> bool:
            return walks or name.rpartition("/")[2] in names

        attributes = tuple((name, each) for name, each in device.attributes.items() if seen(name))
        capacity = tuple((name, each.value) for name, each in device.capacity.items() if seen(name))
        shared = device.allow_multiple_allocations if multiple else None
        key = (expression, driver, shared, attributes, capacity)
        outcome = self._results.get(key)
        if outcome is None:
            assert self._evaluator is not None
            if len(self._results) >= MAX_RESULTS:
                self._results.clear()
            view = _view(driver, shared, attributes, capacity, names)
            outcome = self._results[key] = self._evaluator.evaluate(program, view)
            self.evaluations += 1
        return outcome

    def _compile(self, expression: str) -> tuple[Any, frozenset[str], bool] | AllocationError:
        if (known := self._compiled.get(expression)) is not None:
            return known
        if len(self._compiled) >= MAX_COMPILED:
            self._compiled.clear()
            self._results.clear()
        compiled: tuple[Any, frozenset[str], bool] | AllocationError
        if self._evaluator is None:
            compiled = AllocationError("cel-unavailable", UNAVAILABLE)
        else:
            try:
                compiled = (self._evaluator.compile(expression), *named(expression))
            except AllocationError as error:
                compiled = error
        self._compiled[expression] = compiled
        return compiled


def named(expression: str) -> tuple[frozenset[str], bool]:
    """Return all words and literals of an expression, and whether it may look at attributes that it does not name."""
    literals = [one or other for one, other in _LITERAL.findall(expression)]
    bare = _LITERAL.sub('""', expression)
    names = {*literals, *_WORD.findall(bare)}
    names |= {literal.rpartition("/")[2] for literal in literals}
    steps = len(_NAMED.findall(bare))
    # Comments and texts of several lines may have quotes that are none.
    walks = any(each in expression for each in ("\\", "`", "//", '"""', "'''")) or "?" in expression.replace(" ? ", "")
    walks = walks or steps != len(_MAPS.findall(bare)) or not _WALKS.isdisjoint(_WORD.findall(bare))
    walks = walks or bare.count("device") != len(re.findall(r"\bdevice\s*\.", bare))
    return frozenset(names), walks


def _view(
    driver: str,
    shared: bool | None,
    attributes: tuple[tuple[str, Attribute], ...],
    capacity: tuple[tuple[str, Any], ...],
    names: frozenset[str],
) -> dict[str, Any]:
    """Return ``device`` of an expression; a domain that it names is an empty map if the device has none of it."""
    domains: tuple[dict[str, dict[str, Any]], dict[str, dict[str, Any]]] = ({}, {})
    for kind, entries, convert in ((0, attributes, _attribute), (1, capacity, _quantity)):
        of_kind: dict[str, dict[str, Any]] = domains[kind]
        make: Callable[[Any], Any] = convert
        for full, value in entries:
            domain, _, name = full.rpartition("/")
            of_kind.setdefault(domain or driver, {})[name] = make(value)
        for name in names:
            of_kind.setdefault(name, {})
    view = {"driver": driver, "attributes": domains[0], "capacity": domains[1]}
    return view if shared is None else {**view, "allowMultipleAllocations": shared}


def _quantity(value: Any) -> dict[str, str]:
    return {"quantity": str(parse_quantity(value))}


def version(text: str) -> dict[str, str]:
    """Return a version as expressions see it, without build metadata, by which versions do not differ."""
    return {"version": text.partition("+")[0]}


def _attribute(attribute: Attribute) -> Any:
    known = attribute_value(attribute)
    assert known is not None
    kind, value = known
    if kind == "version":
        return version(value)
    if kind == "versions":
        return [version(each) for each in value]
    return list(value) if isinstance(value, tuple) else value


_KINDS = ("int_", "bool_", "string", "version", "ints", "bools", "strings", "versions")


def attribute_value(attribute: Attribute) -> tuple[str, Any] | None:
    """Return the type of an attribute and its value, None if this version does not know its type."""
    for kind in _KINDS:
        if (value := getattr(attribute, kind)) is not None and value != ():
            return kind.rstrip("_"), value
    return None
