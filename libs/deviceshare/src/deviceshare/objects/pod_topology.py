"""Decoding of inter-pod affinity and anti-affinity, and of topology spread constraints."""

from collections.abc import Iterable, Mapping

from deviceshare.model import (
    PodSelection,
    PodTerm,
    PodTopology,
    Requirement,
    Selector,
    SpreadConstraint,
    WeightedPodTerm,
)
from deviceshare.objects.pod_views import PodAffinity, PodAffinityTerm, PodSpec
from deviceshare.objects.pod_views import SpreadConstraint as SpreadView
from deviceshare.objects.problems import Problems
from deviceshare.objects.views import LabelSelector, SelectorRequirement

_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")
_ACTIONS = ("DoNotSchedule", "ScheduleAnyway")
_POLICIES = ("Honor", "Ignore")
_LARGEST_WEIGHT = 100


def constrains(spec: PodSpec) -> bool:
    """Return whether a pod may have inter-pod constraints."""
    affinity = spec.affinity
    inter_pod = affinity is not None and (affinity.pod_affinity or affinity.pod_anti_affinity)
    return bool(inter_pod or spec.topology_spread_constraints)


def pod_topology(spec: PodSpec, namespace: str, labels: Mapping[str, str], problems: Problems) -> PodTopology | None:
    """Return the inter-pod constraints of a pod, None if it has none. Omits invalid ones (a problem).

    Args:
        spec: the pod's spec.
        namespace: the namespace of the pod: the terms that name no namespace are about pods of this one.
        labels: all labels of the pod.
        problems: the problems of the pod.
    """
    decoder = _Decoder(namespace, labels, problems)
    affinity = spec.affinity
    near = affinity.pod_affinity if affinity is not None else None
    apart = affinity.pod_anti_affinity if affinity is not None else None
    found = PodTopology(
        namespace=namespace,
        affinity=decoder.required(near, "podAffinity"),
        anti_affinity=decoder.required(apart, "podAntiAffinity"),
        preferred=(*decoder.preferred(near, "podAffinity", 1), *decoder.preferred(apart, "podAntiAffinity", -1)),
        spread=tuple(
            constraint
            for index, view in enumerate(spec.topology_spread_constraints or ())
            if (constraint := decoder.spread(view, f"spec.topologySpreadConstraints[{index}]"))
        ),
    )
    if not (found.affinity or found.anti_affinity or found.preferred or found.spread):
        return None
    named = _keys(found)
    own = tuple(sorted((key, value) for key, value in labels.items() if key in named))
    return PodTopology(namespace, own, found.affinity, found.anti_affinity, found.preferred, found.spread)


def _keys(topology: PodTopology) -> set[str]:
    """Return the names of labels by which the pod selects pods."""
    terms = (*topology.affinity, *topology.anti_affinity, *(each.term for each in topology.preferred))
    selectors = [*(term.pods.selector for term in terms), *(each.selector for each in topology.spread)]
    return {requirement.key for selector in selectors for requirement in selector or ()}


def label_selector(view: LabelSelector | None, field: str, problems: Problems) -> Selector:
    """Return a label selector without its malformed requirements (problems); None if there is none."""
    return _Decoder("", {}, problems).selector(view, field)[1]


class _Decoder:
    """Decodes the constraints of one pod."""

    def __init__(self, namespace: str, labels: Mapping[str, str], problems: Problems) -> None:
        self._namespace = namespace
        self._labels = labels
        self._problems = problems

    def required(self, view: PodAffinity | None, name: str) -> tuple[PodTerm, ...]:
        """Return the required terms of podAffinity or podAntiAffinity."""
        views = (view.required_during_scheduling_ignored_during_execution if view is not None else None) or ()
        field = f"spec.affinity.{name}.required"
        terms = (self._term(each, f"{field}[{index}]") for index, each in enumerate(views))
        return tuple(term for term in terms if term is not None)

    def preferred(self, view: PodAffinity | None, name: str, sign: int) -> tuple[WeightedPodTerm, ...]:
        """Return the preferred terms of podAffinity (``sign`` 1) or podAntiAffinity (-1)."""
        found = []
        views = (view.preferred_during_scheduling_ignored_during_execution if view is not None else None) or ()
        for index, each in enumerate(views):
            field, weight = f"spec.affinity.{name}.preferred[{index}]", each.weight or 0
            if not 1 <= weight <= _LARGEST_WEIGHT:
                self._problems.add(f"{field}.weight", str(weight), f"from 1 to {_LARGEST_WEIGHT}")
            elif (term := self._term(each.pod_affinity_term, f"{field}.podAffinityTerm")) is not None:
                found.append(WeightedPodTerm(sign * weight, term))
        return tuple(found)

    def _term(self, view: PodAffinityTerm | None, field: str) -> PodTerm | None:
        if view is None or not view.topology_key:
            self._problems.add(f"{field}.topologyKey", "", "the name of a label of nodes")
            return None
        valid, selector = self.selector(view.label_selector, f"{field}.labelSelector")
        of_namespaces, namespace_selector = self.selector(view.namespace_selector, f"{field}.namespaceSelector")
        if not (valid and of_namespaces):
            return None
        namespaces = tuple(sorted(set(view.namespaces or ())))
        if not namespaces and view.namespace_selector is None:
            namespaces = (self._namespace,)
        return PodTerm(view.topology_key, PodSelection(selector, namespaces, namespace_selector))

    def spread(self, view: SpreadView, field: str) -> SpreadConstraint | None:
        """Return a topology spread constraint."""
        valid, selector = self.selector(view.label_selector, f"{field}.labelSelector")
        if selector is not None and view.match_label_keys:
            keys = (key for key in view.match_label_keys if key in self._labels)
            selector = _selector((*selector, *(Requirement(key, "In", (self._labels[key],)) for key in keys)))
        skew, domains = view.max_skew or 0, 1 if view.min_domains is None else view.min_domains
        policies = view.node_affinity_policy or "Honor", view.node_taints_policy or "Ignore"
        for name, value, right, expected in (
            ("topologyKey", view.topology_key or "", bool(view.topology_key), "the name of a label of nodes"),
            ("maxSkew", str(skew), skew >= 1, "a positive number"),
            ("minDomains", str(domains), domains >= 1, "a positive number"),
            (
                "whenUnsatisfiable",
                view.when_unsatisfiable or "",
                view.when_unsatisfiable in _ACTIONS,
                _one_of(_ACTIONS),
            ),
            ("nodeAffinityPolicy", policies[0], policies[0] in _POLICIES, _one_of(_POLICIES)),
            ("nodeTaintsPolicy", policies[1], policies[1] in _POLICIES, _one_of(_POLICIES)),
        ):
            if not right:
                self._problems.add(f"{field}.{name}", value, expected)
                valid = False
        if not valid:
            return None
        return SpreadConstraint(
            topology_key=view.topology_key or "",
            max_skew=skew,
            selector=selector,
            required=view.when_unsatisfiable == _ACTIONS[0],
            min_domains=domains,
            honors_affinity=policies[0] == "Honor",
            honors_taints=policies[1] == "Honor",
        )

    def selector(self, view: LabelSelector | None, field: str) -> tuple[bool, Selector]:
        """Return whether a selector is valid, and the selector."""
        if view is None:
            return True, None
        found = [Requirement(key, "In", (value,)) for key, value in (view.match_labels or {}).items()]
        valid = True
        for each in view.match_expressions or ():
            requirement = self._requirement(each, field)
            if requirement is None:
                valid = False
            else:
                found.append(requirement)
        return valid, _selector(found)

    def _requirement(self, view: SelectorRequirement, field: str) -> Requirement | None:
        key, operator, values = view.key or "", view.operator or "", tuple(sorted(set(view.values or ())))
        part, value, expected = "", "", ""
        if not key:
            part, expected = "key", "the name of a label"
        elif operator not in _OPERATORS:
            part, value, expected = "operator", operator, _one_of(_OPERATORS)
        elif operator in _OPERATORS[:2] and not values:
            part, expected = "values", f"at least one value for {operator}"
        elif operator in _OPERATORS[2:] and values:
            part, value, expected = "values", ", ".join(values), f"no values for {operator}"
        if part:
            self._problems.add(f"{field}.matchExpressions[{key}].{part}", value, expected)
            return None
        return Requirement(key, operator, values)


def _selector(requirements: Iterable[Requirement]) -> tuple[Requirement, ...]:
    """Return the requirements sorted, so that equal selectors are equal values."""
    return tuple(sorted(set(requirements), key=lambda each: (each.key, each.operator, each.values)))


def _one_of(values: tuple[str, ...]) -> str:
    return f"one of {', '.join(values)}"
