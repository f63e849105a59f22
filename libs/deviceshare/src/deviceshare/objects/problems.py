"""Collects the problems of one object while it is decoded."""

from collections.abc import Mapping

import msgspec

from deviceshare.model import InputError, Problem, Resources, to_amount
from deviceshare.objects.views import Quantities


class Problems(msgspec.Struct):
    """The problems of one object; ``subject`` names it (``Pod default/a``)."""

    subject: str
    found: list[Problem]

    def add(self, field: str, value: str, expected: str) -> None:
        """Add an invalid field."""
        self.found.append(Problem(self.subject, field, value, expected))

    def valid_amounts(
        self, quantities: Quantities | None, field: str, subfields: Mapping[str, str] | None = None
    ) -> Resources:
        """Return the amounts of a resource list, sorted by name; omits invalid amounts and adds them to the problems.

        ``subfields``: the part of ``field`` that contains each resource.
        """
        amounts: Resources = {}
        for resource, quantity in sorted((quantities or {}).items()):
            try:
                amounts[resource] = to_amount(resource, quantity, self.subject, field)
            except InputError as error:
                part = f"{field}.{subfields[resource]}" if subfields else field
                self.add(f"{part}[{resource}]", error.problem.value, error.problem.expected)
        return amounts
