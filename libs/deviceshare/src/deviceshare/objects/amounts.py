"""Lists of resources (``capability``, ``minResources``, …) as amounts."""

from deviceshare.errors import FormatError, Problem
from deviceshare.facts import Resources
from deviceshare.objects.views import Quantities
from deviceshare.quantity import to_amount


def read_amounts(quantities: Quantities | None, subject: str, field: str, problems: list[Problem]) -> Resources:
    """Return amounts by resource; one that cannot be read is appended to ``problems`` and left out."""
    amounts: Resources = {}
    for resource, quantity in sorted((quantities or {}).items()):
        try:
            amounts[resource] = to_amount(resource, quantity, subject, f"{field}[{resource}]", FormatError)
        except FormatError as error:
            problems.append(error.problem)
    return amounts
