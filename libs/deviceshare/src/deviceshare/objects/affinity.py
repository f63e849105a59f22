"""Required node affinity: terms of requirements on a node's labels and name."""

from deviceshare.errors import Problem
from deviceshare.facts import Requirement
from deviceshare.objects.views import Affinity, SelectorRequirement
from deviceshare.quantity import LARGEST

Terms = tuple[tuple[Requirement, ...], ...]

_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")


def required_terms(affinity: Affinity | None, subject: str, problems: list[Problem]) -> Terms | None:
    """Return the terms of a pod's required node affinity, None where it has none.

    As in Kubernetes a term without requirements matches no node, so it is left out, and so is one that is malformed (a
    problem); () is an affinity that no node can satisfy.
    """
    if affinity is None or affinity.node_affinity is None:
        return None
    selector = affinity.node_affinity.required_during_scheduling_ignored_during_execution
    if selector is None:
        return None
    terms = []
    for index, term in enumerate(selector.node_selector_terms or ()):
        field = f"spec.affinity.nodeAffinity.required.nodeSelectorTerms[{index}]"
        expressions = [_requirement(view, False, subject, field, problems) for view in term.match_expressions or ()]
        names = [_requirement(view, True, subject, field, problems) for view in term.match_fields or ()]
        requirements = tuple(requirement for requirement in expressions + names if requirement)
        if requirements and len(requirements) == len(expressions) + len(names):
            terms.append(requirements)
    return tuple(terms)


def _requirement(
    view: SelectorRequirement, is_field: bool, subject: str, field: str, problems: list[Problem]
) -> Requirement | None:
    key, operator, values = view.key or "", view.operator or "", tuple(view.values or ())
    part, value, expected = "", "", ""
    if not key or (is_field and key != "metadata.name"):
        part, value, expected = "key", key, "metadata.name" if is_field else "the name of a label"
    elif operator not in (_OPERATORS[:2] if is_field else _OPERATORS):
        part, value, expected = "operator", operator, f"one of {', '.join(_OPERATORS[:2] if is_field else _OPERATORS)}"
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
