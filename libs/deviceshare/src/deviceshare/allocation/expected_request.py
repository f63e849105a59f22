"""What counts of the requests of expected pods."""

from typing import NamedTuple

from msgspec.structs import replace

from deviceshare.allocation.pod_class import PodClass
from deviceshare.allocation.predicates import Rule
from deviceshare.families import BY_NAME, FAMILIES
from deviceshare.model import INIT


class ExpectedRequest(NamedTuple):
    """What counts of a pod's request: CPU in millicores, and ``cards`` cards with MiB, or percent, and cores of each.

    ``families`` may answer it; none: every family. ``use`` and ``nouse`` are the models that the pod accepts;
    ``card_type`` is the only type of cards that serves it, '' for any.
    """

    cpu: int
    memory: int
    cards: int
    percentage: int = 0
    cores: int = 0
    families: tuple[str, ...] = ()
    use: tuple[str, ...] = ()
    nouse: tuple[str, ...] = ()
    type_parts: bool = False
    card_type: str = ""
    rule: Rule | None = None
    or_whole: bool = False
    """Whether nodes may serve it with cards that the kubelet chooses (:attr:`Demand.or_whole`)."""

    @property
    def hardware(self) -> str:
        """The name of the hardware, '' for any."""
        return BY_NAME[self.families[0]].hardware.name if self.families else ""


def expected_request(pod_class: PodClass) -> ExpectedRequest | None:
    """Return what counts of the pods of a class, None if they request no cards.

    Of several containers, the largest amount counts for all cards; of several kinds of cards, the first one.
    """
    if not pod_class.card_requests:
        return None
    answers = pod_class.card_requests[0].answers
    demand = answers[0][1]
    running = [cards for cards in demand.cards if cards.stage != INIT] or list(demand.cards)
    whole = any(not (cards.memory or cards.memory_percentage) for cards in running)
    return ExpectedRequest(
        cpu=pod_class.cpu,
        memory=max(cards.memory for cards in running),
        cards=sum(cards.count for cards in running),
        percentage=100 if whole else max(cards.memory_percentage for cards in running),
        cores=max(cards.cores for cards in running),
        families=tuple(family.name for family, _ in answers),
        use=demand.use_types,
        nouse=demand.nouse_types,
        type_parts=demand.type_parts,
        card_type=demand.card_type,
        rule=_normal(pod_class.rule),
        or_whole=demand.or_whole,
    )


def _normal(rule: Rule) -> Rule:
    """Return a rule with the values of its node affinity in order and once: requests may differ in that alone."""
    terms = tuple(
        tuple(replace(each, values=tuple(sorted(set(each.values)))) for each in term) for term in rule.node_terms or ()
    )
    return rule if not terms or terms == rule.node_terms else replace(rule, node_terms=terms)


def modes_for(request: ExpectedRequest) -> frozenset[str]:
    """Return the modes of the cards that may serve a request."""
    families = [BY_NAME[name] for name in request.families] if request.families else FAMILIES
    return frozenset().union(*(family.modes for family in families))


def size_of(request: ExpectedRequest) -> tuple[int, int, int]:
    """Return what orders equally frequent requests: CPU, memory and the number of cards."""
    return request.cpu, request.memory, request.cards


def rest_of(request: ExpectedRequest) -> str:
    """Return the rest of a request as text, the same in every process: sets have no order."""
    rule = request.rule
    shown = "" if rule is None else f"{rule.node_selector}{rule.node_terms}{rule.tolerations}{sorted(rule.hardware)}"
    return f"{request[3:-1]}{shown}"
