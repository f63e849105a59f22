"""What can be wrong with a workload file: each error names the field, its value and what would be right."""

import re
from collections.abc import Callable, Collection, Iterable
from typing import Any

import msgspec
from deviceshare.model import InputError, NodeFact, PodFact, Problem

MOST = 1_000_000
"""Of what is counted in a file: nodes, cards of one, pods that share a card."""

_AT = re.compile(r"^(.*) - at `\$\.?(.+)`$")
_STEP = re.compile(r"\w+")


class Checks:
    """Raises what is wrong with one file.

    Raises:
        InputError: by each of its methods.
    """

    def __init__(self, subject: str) -> None:
        self._subject = subject

    def between(self, field: str, value: int, least: int, most: int = MOST) -> None:
        """A number has bounds."""
        if not least <= value <= most:
            raise self.error(field, value, f"a number from {least} to {most}")

    def one_of(self, field: str, value: str, words: Iterable[str]) -> None:
        """A word is known."""
        if value not in words:
            raise self.error(field, value, "one of " + ", ".join(word or "nothing" for word in words))

    def names(self, field: str, pattern: str, examples: Collection[tuple[int, ...]], expected: str) -> None:
        """A printf pattern names each of these differently."""
        try:
            different = len({pattern % each for each in examples}) == len(examples)
        except (TypeError, ValueError):
            different = False
        if not different:
            raise self.error(field, pattern, expected)

    def unique(self, field: str, names: Iterable[str]) -> None:
        """No two have one name."""
        seen = set[str]()
        for number, name in enumerate(names):
            if name in seen:
                raise self.error(f"{field}[{number}].name", name, "a name that no other has")
            seen.add(name)

    def node(self, fact: NodeFact, cards: int) -> None:
        """All cards of the first node are read: all nodes are made alike."""
        self._told(f"nodes: {fact.name}", fact.problems)
        if len(fact.cards) != cards:
            raise self.error("uuid_format and device_type", f"{cards} cards", "such as a register annotation can hold")

    def there(self, number: int, node: str, names: Collection[str]) -> None:
        """A node that a pod stands on is one of the file's."""
        if node not in names:
            raise self.error(f"existing[{number}].node", node, "a node that node_format names")

    def holds(self, number: int, value: str, read: Callable[[], PodFact], cards: Collection[str]) -> PodFact:
        """What a pod holds can be read, and names cards of its node."""
        field, expected = f"existing[{number}].value", "the family's device annotation, with cards of the node"
        try:
            fact = read()
        except ValueError:
            raise self.error(field, value, expected) from None
        self._told(field, fact.problems)
        devices = [device.id for grant in fact.held for device in grant.devices]
        if not devices or not set(devices) <= set(cards):
            raise self.error(field, value, expected)
        return fact

    def asks(self, number: int, fact: PodFact) -> PodFact:
        """What a pod asks can be read."""
        self._told(f"pods[{number}]", fact.problems)
        return fact

    def error(self, field: str, value: object, expected: str) -> InputError:
        """Return the error that a field is."""
        return InputError(self._subject, field, value, expected)

    def _told(self, field: str, problems: Iterable[Problem]) -> None:
        for each in problems:
            raise self.error(f"{field}: {each.field}", each.value, each.expected)


def form_error(subject: str, raw: bytes, error: Exception) -> str:
    """Return what msgspec tells, with the field in front and the value that stands there."""
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
