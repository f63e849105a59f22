"""Node affinity: terms of requirements on a node's labels and name, required or preferred."""

from deviceshare.model import LARGEST, Preference, Problem, Requirement
from deviceshare.objects.views import Affinity, SelectorRequirement, SelectorTerm

Terms = tuple[tuple[Requirement, ...], ...]

_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
_REQUIRED = "spec.affinity.nodeAffinity.required.nodeSelectorTerms"
_PREFERRED = "spec.affinity.nodeAffinity.preferred"
_LARGEST_WEIGHT = 100


def required_terms(affinity: Affinity | None, subject: str, problems: list[Problem]) -> Terms | None:
    """Return the terms of a pod's required node affinity, None if it has none.

    Omitted: terms without requirements, which match no node in Kubernetes, and malformed terms, which are problems.
    (): no node can satisfy the affinity.
    """
    if affinity is None or affinity.node_affinity is None:
        return None
    selector = affinity.node_affinity.required_during_scheduling_ignored_during_execution
    if selector is None:
        return None
    terms = (
        _term(view, subject, f"{_REQUIRED}[{index}]", problems)
        for index, view in enumerate(selector.node_selector_terms or ())
    )
    return tuple(term for term in terms if term)


def preferences(affinity: Affinity | None, subject: str, problems: list[Problem]) -> tuple[Preference, ...]:
    """Return the terms of a pod's preferred node affinity; a malformed term is omitted and a problem.

    A term without requirements prefers no node, as in Kubernetes.
    """
    if affinity is None or affinity.node_affinity is None:
        return ()
    found = []
    for index, view in enumerate(affinity.node_affinity.preferred_during_scheduling_ignored_during_execution or ()):
        field, weight = f"{_PREFERRED}[{index}]", view.weight or 0
        if not 1 <= weight <= _LARGEST_WEIGHT:
            problems.append(Problem(subject, f"{field}.weight", str(weight), f"from 1 to {_LARGEST_WEIGHT}"))
        elif view.preference and (term := _term(view.preference, subject, f"{field}.preference", problems)):
            found.append(Preference(weight, term))
    return tuple(found)


def _term(view: SelectorTerm, subject: str, field: str, problems: list[Problem]) -> tuple[Requirement, ...]:
    """Return a term's requirements, () if it has none or one is malformed."""
    found = [_requirement(each, False, subject, field, problems) for each in view.match_expressions or ()]
    found += [_requirement(each, True, subject, field, problems) for each in view.match_fields or ()]
    requirements = tuple(requirement for requirement in found if requirement)
    return requirements if len(requirements) == len(found) else ()


def _requirement(
    view: SelectorRequirement, is_field: bool, subject: str, field: str, problems: list[Problem]
) -> Requirement | None:
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
    elif operator in ("Gt", "Lt") and not (len(values) == 1 and _is_integer(values[0])):
        part, value, expected = "values", ", ".join(values), f"one whole number for {operator}"
    if part:
        where = "matchFields" if is_field else "matchExpressions"
        problems.append(Problem(subject, f"{field}.{where}[{key}].{part}", value, expected))
        return None
    return Requirement(key, operator, values, is_field)


def _is_integer(text: str) -> bool:
    digits = text.removeprefix("-")
    return len(digits) <= 16 and digits.isascii() and digits.isdecimal() and int(digits) <= LARGEST
