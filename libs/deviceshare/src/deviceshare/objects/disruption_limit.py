"""Numbers of pods that may be evicted together: of PodDisruptionBudgets, and of Volcano's budgets of jobs."""

import re

from deviceshare.model import LARGEST, NO_DISRUPTION, DisruptionLimit
from deviceshare.objects.problems import Problems

Value = tuple[int | str | None, str]
"""A value, and the field that it is in."""

_PERCENT = re.compile(r"([0-9]{1,3})%")
_EXPECTED = "a number of pods, 0 or more, or a percentage such as 50%"


def read_limit(min_available: Value, max_unavailable: Value, problems: Problems) -> DisruptionLimit:
    """Return the limit; with both, the first counts. An invalid value is a problem, and then no pod may go."""
    least, of_least = _number(*min_available, problems)
    most, of_most = _number(*max_unavailable, problems)
    if least is not None:
        return DisruptionLimit(min_available=least, percent=of_least)
    return NO_DISRUPTION if most is None else DisruptionLimit(max_unavailable=most, percent=of_most)


def _number(value: int | str | None, field: str, problems: Problems) -> tuple[int | None, bool]:
    """Return a number or a percentage, and whether it is one."""
    if isinstance(value, str):
        if (match := _PERCENT.fullmatch(value)) is not None:
            return int(match[1]), True
        problems.add(field, value, _EXPECTED)
        return None, False
    if value is not None and not 0 <= value <= LARGEST:
        problems.add(field, str(value), _EXPECTED)
        return None, False
    return value, False
