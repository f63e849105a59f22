"""What waiting requests ask of the labels of a node and of the models of its cards: whether a node may serve one.

The answer is necessary, not sufficient. It is asked for many pairs of requests and nodes at once, outside the share of
any queue, so that requests which are long in themselves are left out (:func:`is_short`).
"""

from functools import lru_cache

from deviceshare.allocation.card_request import CardRequest
from deviceshare.allocation.pod_class import PodClass
from deviceshare.allocation.predicates import matches
from deviceshare.families import types_accepted
from deviceshare.model import NodeFact

MAX_VALUES = 16
"""Labels, terms of node affinity with their values, and models of a short request."""
MAX_TYPE_LENGTH = 1024
"""Characters of all models of a short request."""
MAX_ANSWERS = 4096
"""Answers about models that are kept: of short requests, and the models of one node."""


def is_short(pod_class: PodClass) -> bool:
    """Return whether the labels and models that a class asks for are few, so that comparing them costs little."""
    rule = pod_class.rule
    terms = rule.node_terms or ()
    of_terms = sum(1 + len(requirement.values) for term in terms for requirement in term)
    types = [
        name
        for card_request in pod_class.card_requests
        for _, demand in card_request.answers
        for name in (*demand.use_types, *demand.nouse_types)
    ]
    count = len(rule.node_selector) + len(terms) + of_terms + len(types)
    return count <= MAX_VALUES and sum(map(len, types)) <= MAX_TYPE_LENGTH


def may_serve(node: NodeFact, pod_class: PodClass) -> bool:
    """Return whether a node has the labels that a class requires, and cards of the models."""
    return matches(pod_class.rule, node) and all(_has_model(node, request) for request in pod_class.card_requests)


def _has_model(node: NodeFact, card_request: CardRequest) -> bool:
    demands = [demand for _, demand in card_request.answers]
    if any(demand.or_whole or not (demand.use_types or demand.nouse_types) for demand in demands):
        return True
    names = tuple(sorted({card.type for card in node.cards}))
    # A part of a word counts only where no card of the cluster has the whole word: refused models are unknown here.
    return any(
        _accepts(demand.use_types, () if demand.type_parts else demand.nouse_types, names, demand.type_parts)
        for demand in demands
    )


@lru_cache(MAX_ANSWERS)
def _accepts(use: tuple[str, ...], nouse: tuple[str, ...], names: tuple[str, ...], parts: bool) -> bool:
    return bool(types_accepted(use, nouse, names, parts=parts).any())
