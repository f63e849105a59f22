"""Decoding of required and preferred node affinity."""

from deviceshare.model import Preference, Requirement, integer
from deviceshare.objects.pod_views import Affinity
from deviceshare.objects.problems import Problems
from deviceshare.objects.views import NodeSelector, SelectorRequirement, SelectorTerm

Terms = tuple[tuple[Requirement, ...], ...]

_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
_REQUIRED = "spec.affinity.nodeAffinity.required.nodeSelectorTerms"
_PREFERRED = "spec.affinity.nodeAffinity.preferred"
_LARGEST_WEIGHT = 100


def required_terms(affinity: Affinity | None, problems: Problems) -> Terms | None:
    """Return the terms of a pod's required node affinity, or None; () matches no node.

    Omits terms without requirements, which match no node in Kubernetes, and malformed terms (a problem).
    """
    if affinity is None or affinity.node_affinity is None:
        return None
    selector = affinity.node_affinity.required_during_scheduling_ignored_during_execution
    return None if selector is None else selector_terms(selector, _REQUIRED, problems)


def selector_terms(selector: NodeSelector, field: str, problems: Problems) -> Terms:
    """Return the terms of a node selector without those that are empty or malformed (a problem)."""
    views = enumerate(selector.node_selector_terms or ())
    return tuple(term for index, view in views if (term := _term(view, f"{field}[{index}]", problems)))


def preferences(affinity: Affinity | None, problems: Problems) -> tuple[Preference, ...]:
    """Return the terms of a pod's preferred node affinity.

    Omits terms without requirements, which prefer no node in Kubernetes, and malformed terms (a problem).
    """
    if affinity is None or affinity.node_affinity is None:
        return ()
    found = []
    for index, view in enumerate(affinity.node_affinity.preferred_during_scheduling_ignored_during_execution or ()):
        field, weight = f"{_PREFERRED}[{index}]", view.weight or 0
        if not 1 <= weight <= _LARGEST_WEIGHT:
            problems.add(f"{field}.weight", str(weight), f"from 1 to {_LARGEST_WEIGHT}")
        elif view.preference and (term := _term(view.preference, f"{field}.preference", problems)):
            found.append(Preference(weight, term))
    return tuple(found)


def _term(view: SelectorTerm, field: str, problems: Problems) -> tuple[Requirement, ...]:
    """Return a term's requirements, or () if one of them is malformed."""
    found = [_requirement(each, False, field, problems) for each in view.match_expressions or ()]
    found += [_requirement(each, True, field, problems) for each in view.match_fields or ()]
    requirements = tuple(requirement for requirement in found if requirement)
    return requirements if len(requirements) == len(found) else ()


def _requirement(view: SelectorRequirement, is_field: bool, field: str, problems: Problems) -> Requirement | None:
    key, operator, values = view.key or "", view.operator or "", tuple(view.values or ())
    part, value, expected = "", "", ""
    if not key or (is_field and key != "metadata.name"):
        part, value, expected = "key", key, "metadata.name" if is_field else "the name of a label"
    elif operator not in (_OPERATORS[:2] if is_field else _OPERATORS):
        part, value, expected = "operator", operator, f"one of {', '.join(_OPERATORS[:2] if is_field else _OPERATORS)}"
    elif is_field and len(values) != 1:
        part, value, expected = "values", ", ".join(values), f"one name for {operator}"
    elif operator in ("In", "NotIn") and not values:
        part, expected = "values", f"at least one value for {operator}"
    elif operator in ("Exists", "DoesNotExist") and values:
        part, value, expected = "values", ", ".join(values), f"no values for {operator}"
    elif operator in ("Gt", "Lt") and not (len(values) == 1 and integer(values[0]) is not None):
        part, value, expected = "values", ", ".join(values), f"one whole number for {operator}"
    if part:
        where = "matchFields" if is_field else "matchExpressions"
        problems.add(f"{field}.{where}[{key}].{part}", value, expected)
        return None
    return Requirement(key, operator, values, is_field)
