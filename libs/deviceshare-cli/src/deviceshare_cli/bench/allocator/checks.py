"""Validation of a workload file: each error has the field, its value and the expected value."""

import re
from collections.abc import Callable, Collection, Iterable
from typing import Any

import msgspec
from deviceshare.model import InputError, NodeFact, PodFact, Problem

MOST = 1_000_000
"""Upper limit of numbers in a file: nodes, cards per node, pods per card."""

_AT = re.compile(r"^(.*) - at `\$\.?(.+)`$")
_STEP = re.compile(r"\w+")


class Checks:
    """Validates one file; each method raises InputError if the check fails."""

    def __init__(self, subject: str) -> None:
        self._subject = subject

    def between(self, field: str, value: int, least: int, most: int = MOST) -> None:
        """Check the range of a number."""
        if not least <= value <= most:
            raise self.error(field, value, f"a number from {least} to {most}")

    def one_of(self, field: str, value: str, words: Iterable[str]) -> None:
        """Check that a word is known."""
        if value not in words:
            raise self.error(field, value, "one of " + ", ".join(word or "nothing" for word in words))

    def names(self, field: str, pattern: str, examples: Collection[tuple[int, ...]], expected: str) -> None:
        """Check that a printf pattern gives a different name for each example."""
        try:
            different = len({pattern % each for each in examples}) == len(examples)
        except (TypeError, ValueError):
            different = False
        if not different:
            raise self.error(field, pattern, expected)

    def unique(self, field: str, names: Iterable[str]) -> None:
        """Check that names are unique."""
        seen = set[str]()
        for number, name in enumerate(names):
            if name in seen:
                raise self.error(f"{field}[{number}].name", name, "a unique name")
            seen.add(name)

    def node(self, fact: NodeFact, cards: int) -> None:
        """Check that all cards of the first node are decoded; all nodes are alike."""
        self._raise_first(f"nodes: {fact.name}", fact.problems)
        if len(fact.cards) != cards:
            raise self.error("uuid_format and device_type", f"{cards} cards", "values valid in a register annotation")

    def existing_node(self, number: int, node: str, names: Collection[str]) -> None:
        """Check that the node of an existing pod is in the file."""
        if node not in names:
            raise self.error(f"existing[{number}].node", node, "a name that node_format gives")

    def existing_pod(self, number: int, value: str, read: Callable[[], PodFact], cards: Collection[str]) -> PodFact:
        """Check that the devices of an existing pod can be decoded and are cards of its node."""
        field, expected = f"existing[{number}].value", "the family's device annotation, with cards of the node"
        try:
            fact = read()
        except ValueError:
            raise self.error(field, value, expected) from None
        self._raise_first(field, fact.problems)
        devices = [device.id for grant in fact.held for device in grant.devices]
        if not devices or not set(devices) <= set(cards):
            raise self.error(field, value, expected)
        return fact

    def pod(self, number: int, fact: PodFact) -> PodFact:
        """Check that the request of a pod can be decoded."""
        self._raise_first(f"pods[{number}]", fact.problems)
        return fact

    def error(self, field: str, value: object, expected: str) -> InputError:
        """Return the error of a field."""
        return InputError(self._subject, field, value, expected)

    def _raise_first(self, field: str, problems: Iterable[Problem]) -> None:
        for each in problems:
            raise self.error(f"{field}: {each.field}", each.value, each.expected)


def form_error(subject: str, raw: bytes, error: Exception) -> str:
    """Return an error of msgspec with the field and its value in front."""
    found = _AT.match(str(error))
    if found is None:
        return f"{subject}: not a workload: {error}"
    text, field = found.groups()
    if "missing" in text:
        return f"{subject}: {field}: {text}"
    value: Any = msgspec.json.decode(raw)
    for step in _STEP.findall(field):
        value = value[int(step)] if isinstance(value, list) else value[step]
    return f"{subject}: {field}: {msgspec.json.encode(value).decode()[:120]} is not valid: {text}"
