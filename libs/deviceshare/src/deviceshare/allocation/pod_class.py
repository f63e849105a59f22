"""What is known of one ask, and how the families are asked.

Nothing here knows a device family by name.
"""

from collections.abc import Callable, Hashable, Sequence

import numpy as np

from deviceshare.allocation.card_models import model_wish
from deviceshare.allocation.card_request import CardChoice, CardRequest, CardSelectors, selectors_of
from deviceshare.allocation.node_ranking import NodeRanking, RankingCache
from deviceshare.allocation.node_scores import counted, node_scores, scored
from deviceshare.allocation.predicates import Rule
from deviceshare.conf import SchedulerConf
from deviceshare.families import FAMILIES, MOST_CARDS, Check, Demand, Family
from deviceshare.kernels import Amounts, NodeIndex
from deviceshare.model import Card, ContainerGrant, PodRequest, Problem, Refusal, RequestError, is_native
from deviceshare.state import Bools, CardTable, CardView, Ints, ResourceTable, pod_resources


class PodClass:
    """One ask, read by every family. Shapes that the nodes cannot tell apart share an ``outlook``."""

    def __init__(self, ask: PodRequest, conf: SchedulerConf) -> None:
        self.ask = ask
        self.problem: Problem | None = None
        self.card_requests: tuple[CardRequest, ...]
        self.disabled: list[Family] = []
        self.unsupported = tuple(field for field in ask.unsupported if conf.predicates.refuses(field))
        self._devices = self._ask_families(ask, conf)
        """The resources by which devices are asked."""
        self.unschedulable = bool(self.problem or self.disabled or self.unsupported)
        """Whether no node of any cluster would take it."""
        self.resources = pod_resources(ask, self._devices)
        self.ports = ask.host_ports if conf.predicates.node_ports else ()
        """Those that have to be free."""
        self.counted = counted(ask, conf, self._devices)
        """What scores count of such a pod on a node beside ``resources``."""
        self.rule = Rule.of(ask, self._hardware(), conf.predicates)
        self.models = model_wish(ask, self.resources)
        self.caveats: tuple[str, ...] = ()
        self.caveats_at = -1
        """The version of the cluster's types of cards that ``caveats`` are about."""
        self.version = -1
        """Of the tables by whose codes ``outlook`` was chosen; -1: there is none yet."""
        self.ranking: NodeRanking
        self.node_index: NodeIndex
        """That of the outlook."""
        self._numbers: tuple[int, ...] = ()
        """Of each picker of the outlook, which answer it is."""
        self.bonus = max(
            (family.best_node_score for card_request in self.card_requests for family, _ in card_request.answers),
            default=0.0,
        )
        """What the one node that a family prefers counts more."""

    def _ask_families(self, ask: PodRequest, conf: SchedulerConf) -> frozenset[str]:
        """Ask every family what the pod asks of it; returns the resources that families account for."""
        handled: set[str] = set()
        asked: dict[str, list[tuple[Family, Demand]]] = {}
        disabled: dict[str, Family] = {}
        problems: dict[str, Problem] = {}
        for family in FAMILIES:
            handled |= family.resources(conf)
            request = family.answers or family.name
            try:
                demand = family.demand(ask, conf)
            except RequestError as error:
                problems.setdefault(request, error.problem)
                continue
            if demand is None:
                continue
            most = max((cards.count for cards in demand.cards), default=0)
            if most > MOST_CARDS:
                expected = f"at most {MOST_CARDS} of one node: more pods, of a gang"
                problems.setdefault(request, Problem("Pod", f"spec: cards of {family.name}", str(most), expected))
                continue
            if family.flag in conf.families:
                asked.setdefault(request, []).append((family, demand))
            else:
                disabled.setdefault(request, family)
        self.card_requests = tuple(CardRequest(answers) for answers in asked.values())
        self.problem = next((problem for request, problem in problems.items() if request not in asked), None)
        self.disabled = [family for request, family in disabled.items() if request not in asked]
        return frozenset(handled)

    def _hardware(self) -> frozenset[str]:
        """Return the names of the hardware of which the pod asks cards, cut or whole."""
        asked = {name for name, _ in self.resources}
        cut = {family.hardware.name for card_request in self.card_requests for family, _ in card_request.answers}
        whole = {family.hardware.name for family in FAMILIES if family.hardware.whole in asked}
        return frozenset(cut | whole)

    def for_no_node(self, ask: PodRequest, conf: SchedulerConf) -> tuple[Refusal, ...]:
        """Return the reasons for which no node of any cluster takes the pod, beside a ``problem`` of its own."""
        unsupported = [
            Refusal(code="NotEvaluated", text=f"the pod asks {field}, which is not evaluated yet", nodes=0)
            for field in self.unsupported
        ]
        disabled = [
            Refusal(
                code="FamilyDisabled",
                text=f"the pod asks {_asked_of(family, ask, conf)}: set {family.flag}: true in volcano-scheduler.conf",
                nodes=0,
            )
            for family in self.disabled
        ]
        return (*unsupported, *disabled)

    def resolve(
        self, cards: CardTable, resources: ResourceTable, conf: SchedulerConf, rankings: RankingCache, version: int
    ) -> None:
        """Choose the outlook, by the codes that the tables know by now."""
        self.version = version
        selectors = selectors_of(self.card_requests, cards, conf)
        self._numbers = selectors.numbers if selectors is not None else ()
        equivalence_key = self._equivalence_key(selectors, conf)
        ranking = rankings.get(equivalence_key)
        if ranking is None:
            scores = node_scores(self.ask, conf, self._devices, resources)
            ranking = rankings.add(equivalence_key, self.card_requests, self.rule, scores, favouring=bool(self.bonus))
        if ranking.version != version:
            ranking.version = version
            ranking.resolve(self.resources, self.models, cards, resources, conf)
        self.ranking, self.node_index = ranking, ranking.node_index

    def _equivalence_key(self, selectors: CardSelectors | None, conf: SchedulerConf) -> Hashable:
        """Return all that decides which nodes the pod may have and what they are worth to it."""
        if selectors is None or any(each.equivalence_key is None for each in selectors.kernels):
            return self.ask
        asked = (selectors.numbers, tuple(each.equivalence_key for each in selectors.kernels))
        seen = (self.rule, self.ask.preferences, self.ports, self.resources, self.models)
        return (asked, seen, scored(self.ask, conf))

    def evaluate(self, rows: Ints, view: CardView, conf: SchedulerConf) -> None:
        """Ask the families in turn about these nodes, on a view that each charges for the next."""
        fits: Bools = np.ones(len(rows), dtype=np.bool_)
        key, waste, rank = (np.zeros(len(rows)) for _ in range(3))
        for card_request in self.card_requests:
            places, _ = card_request.answer(view, conf)
            fits &= places.fits
            waste += places.waste
            if places.rank is not None:
                rank += places.rank
            key += self.ranking.weighted_score(places.score)
        self.ranking.put_rows(rows, fits, key, waste, rank)

    def best(self) -> tuple[int, float]:
        """Return the best node's row, -1 where none fits, and what it scores as the favourite of a family."""
        return self.ranking.best(self.bonus) if self.bonus else (self.node_index.best.first(), 0.0)

    def chosen(
        self, row: int, amounts: Amounts, view: Callable[[], CardView], conf: SchedulerConf
    ) -> tuple[float, list[CardChoice]]:
        """Return what the cards of a node score, and the answer to each question."""
        node_index = self.node_index
        if node_index.selectors is not None:
            if not node_index.selectors:
                return 0.0, []
            number = node_index.choose(amounts, row)
            return float(node_index.score), [CardChoice(self._numbers[number], [node_index.selectors[number].chosen()])]
        score, chosen = 0.0, list[CardChoice]()
        one = view()
        for card_request in self.card_requests:
            places, choice = card_request.answer(one, conf)
            score += float(places.score[0])
            cards = [
                list(zip(columns[0].tolist(), details[0].tolist(), strict=True))
                for columns, details in zip(places.columns, places.details, strict=True)
            ]
            chosen.append(CardChoice(int(choice[0]), cards))
        return score, chosen

    def grants(
        self, chosen: Sequence[CardChoice], cards: tuple[Card, ...], conf: SchedulerConf
    ) -> tuple[ContainerGrant, ...]:
        """Return what a pod would be given on a node with these cards."""
        grants: tuple[ContainerGrant, ...] = ()
        for card_request, answer in zip(self.card_requests, chosen, strict=True):
            grants += card_request.grants(answer, cards, conf)
        return grants

    def checks(self, view: CardView, conf: SchedulerConf) -> list[Check]:
        """Return the checks of cards that fail; each question sees what the ones before took."""
        found: list[Check] = []
        for number, card_request in enumerate(self.card_requests):
            if number:
                self.card_requests[number - 1].answer(view, conf)
            found += card_request.checks(view, conf)
        return found


def _asked_of(family: Family, ask: PodRequest, conf: SchedulerConf) -> str:
    """Return the resources by which a pod asks a family; where they are the node's own, all that are no native ones."""
    containers = (*ask.containers, *ask.init_containers)
    asked = {name for each in containers for name, amount in each.resources if amount and not is_native(name)}
    return ", ".join(sorted(asked & family.resources(conf) or asked))
