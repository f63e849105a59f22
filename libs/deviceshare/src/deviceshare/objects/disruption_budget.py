"""PodDisruptionBudgets, ``policy/v1``."""

import msgspec

from deviceshare.model import PodDisruptionBudgetFact, Selector, limited
from deviceshare.objects.bounds import has_many_texts
from deviceshare.objects.disruption_limit import read_limit
from deviceshare.objects.lenient import decode_view
from deviceshare.objects.pod_topology import label_selector
from deviceshare.objects.problems import Problems
from deviceshare.objects.views import BudgetObject, BudgetSpec

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
    limit = read_limit(
        (spec.min_available, "spec.minAvailable"), (spec.max_unavailable, "spec.maxUnavailable"), problems
    )
    selector: Selector = ()
    if spec.selector is None or not has_many_texts(spec.selector, "spec.selector", problems):
        selector = label_selector(spec.selector, "spec.selector", problems)
    allowed = view.status.disruptions_allowed if view.status is not None else None
    return PodDisruptionBudgetFact(
        revision=metadata.resource_version or "",
        key=key,
        selector=selector,
        allowed=0 if found else None if allowed is None else max(0, allowed),
        limit=limit,
        problems=limited(found),
    )
