"""PodDisruptionBudgets, ``policy/v1``."""

import re

import msgspec

from deviceshare.model import LARGEST, PodDisruptionBudgetFact, Selector, limited
from deviceshare.objects.bounds import has_many_texts
from deviceshare.objects.lenient import decode_view
from deviceshare.objects.pod_topology import label_selector
from deviceshare.objects.problems import Problems
from deviceshare.objects.views import BudgetObject, BudgetSpec

_PERCENT = re.compile(r"([0-9]{1,3})%")
_EXPECTED = "a number of pods, 0 or more, or a percentage such as 50%"


_DECODER = msgspec.json.Decoder(BudgetObject)


def decode_disruption_budget(raw: bytes) -> PodDisruptionBudgetFact:
    """Decode a PodDisruptionBudget in JSON; invalid fields are in ``problems``, and then it allows no eviction.

    Raises:
        FormatError: the object has no name.
    """
    view, found = decode_view(raw, _DECODER, "PodDisruptionBudget")
    metadata, spec = view.metadata, view.spec or BudgetSpec()
    key = f"{metadata.namespace or 'default'}/{metadata.name}"
    problems = Problems(f"PodDisruptionBudget {key}", found)
    least, of_least = _number(spec.min_available, "spec.minAvailable", problems)
    most, of_most = _number(spec.max_unavailable, "spec.maxUnavailable", problems)
    selector: Selector = ()
    if spec.selector is None or not has_many_texts(spec.selector, "spec.selector", problems):
        selector = label_selector(spec.selector, "spec.selector", problems)
    allowed = view.status.disruptions_allowed if view.status is not None else None
    return PodDisruptionBudgetFact(
        revision=metadata.resource_version or "",
        key=key,
        selector=selector,
        allowed=0 if found else None if allowed is None else max(0, allowed),
        min_available=least,
        max_unavailable=most if least is None else None,
        percent=of_most if least is None else of_least,
        problems=limited(found),
    )


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
