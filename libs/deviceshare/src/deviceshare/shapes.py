"""What is known of one ask, and how the families are asked.

Nothing here knows a device family by name.
"""

from collections.abc import Callable, Hashable, Sequence

import numpy as np

from deviceshare.cards import Bools, CardTable, CardView, Ints
from deviceshare.claims import ContainerGrant
from deviceshare.conf.model import SchedulerConf
from deviceshare.errors import Problem, RequestError
from deviceshare.explain import Refusal
from deviceshare.facts import Card, PodAsk
from deviceshare.families import FAMILIES
from deviceshare.families.protocol import MOST_CARDS, Check, Demand, Family
from deviceshare.kernels.charges import Amounts
from deviceshare.kernels.standing import Standing
from deviceshare.models import model_wish
from deviceshare.node_scores import counted, node_scores, scored
from deviceshare.outlook import Outlook, Outlooks
from deviceshare.pod_sums import pod_resources
from deviceshare.predicates import Rule
from deviceshare.quantity import is_native
from deviceshare.questions import Answer, Pickers, Question, pickers_of
from deviceshare.resources import ResourceTable


class Shape:
    """One ask, read by every family. Shapes that the nodes cannot tell apart share an ``outlook``."""

    def __init__(self, ask: PodAsk, conf: SchedulerConf) -> None:
        self.ask = ask
        self.problem: Problem | None = None
        self.questions: tuple[Question, ...]
        self.disabled: list[Family] = []
        self.unsupported = tuple(field for field in ask.unsupported if conf.predicates.refuses(field))
        self._devices = self._ask_families(ask, conf)
        """The resources by which devices are asked."""
        self.hopeless = bool(self.problem or self.disabled or self.unsupported)
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
        self.outlook: Outlook
        self.standing: Standing
        """That of the outlook."""
        self._numbers: tuple[int, ...] = ()
        """Of each picker of the outlook, which answer it is."""
        self.bonus = max(
            (family.best_node_score for question in self.questions for family, _ in question.answers), default=0.0
        )
        """What the one node that a family prefers counts more."""

    def _ask_families(self, ask: PodAsk, conf: SchedulerConf) -> frozenset[str]:
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
        self.questions = tuple(Question(answers) for answers in asked.values())
        self.problem = next((problem for request, problem in problems.items() if request not in asked), None)
        self.disabled = [family for request, family in disabled.items() if request not in asked]
        return frozenset(handled)

    def _hardware(self) -> frozenset[str]:
        """Return the names of the hardware of which the pod asks cards, cut or whole."""
        asked = {name for name, _ in self.resources}
        cut = {family.hardware.name for question in self.questions for family, _ in question.answers}
        whole = {family.hardware.name for family in FAMILIES if family.hardware.whole in asked}
        return frozenset(cut | whole)

    def for_no_node(self, ask: PodAsk, conf: SchedulerConf) -> tuple[Refusal, ...]:
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
        self, cards: CardTable, resources: ResourceTable, conf: SchedulerConf, outlooks: Outlooks, version: int
    ) -> None:
        """Choose the outlook, by the codes that the tables know by now."""
        self.version = version
        pickers = pickers_of(self.questions, cards, conf)
        self._numbers = pickers.numbers if pickers is not None else ()
        likeness = self._likeness(pickers, conf)
        outlook = outlooks.get(likeness)
        if outlook is None:
            scores = node_scores(self.ask, conf, self._devices, resources)
            outlook = outlooks.add(likeness, self.questions, self.rule, scores, favouring=bool(self.bonus))
        if outlook.version != version:
            outlook.version = version
            outlook.resolve(self.resources, self.models, cards, resources, conf)
        self.outlook, self.standing = outlook, outlook.standing

    def _likeness(self, pickers: Pickers | None, conf: SchedulerConf) -> Hashable:
        """Return all that decides which nodes the pod may have and what they are worth to it."""
        if pickers is None or any(each.likeness is None for each in pickers.kernels):
            return self.ask
        asked = (pickers.numbers, tuple(each.likeness for each in pickers.kernels))
        seen = (self.rule, self.ask.preferences, self.ports, self.resources, self.models)
        return (asked, seen, scored(self.ask, conf))

    def evaluate(self, rows: Ints, view: CardView, conf: SchedulerConf) -> None:
        """Ask the families in turn about these nodes, on a view that each charges for the next."""
        fits: Bools = np.ones(len(rows), dtype=np.bool_)
        key, waste, rank = (np.zeros(len(rows)) for _ in range(3))
        for question in self.questions:
            places, _ = question.answer(view, conf)
            fits &= places.fits
            waste += places.waste
            if places.rank is not None:
                rank += places.rank
            key += self.outlook.worth(places.score)
        self.outlook.put_rows(rows, fits, key, waste, rank)

    def best(self) -> tuple[int, float]:
        """Return the best node's row, -1 where none fits, and what it scores as the favourite of a family."""
        return self.outlook.best(self.bonus) if self.bonus else (self.standing.best.first(), 0.0)

    def chosen(
        self, row: int, amounts: Amounts, view: Callable[[], CardView], conf: SchedulerConf
    ) -> tuple[float, list[Answer]]:
        """Return what the cards of a node score, and the answer to each question."""
        standing = self.standing
        if standing.pickers is not None:
            if not standing.pickers:
                return 0.0, []
            number = standing.choose(amounts, row)
            return float(standing.score), [Answer(self._numbers[number], [standing.pickers[number].chosen()])]
        score, chosen = 0.0, list[Answer]()
        one = view()
        for question in self.questions:
            places, choice = question.answer(one, conf)
            score += float(places.score[0])
            cards = [
                list(zip(columns[0].tolist(), details[0].tolist(), strict=True))
                for columns, details in zip(places.columns, places.details, strict=True)
            ]
            chosen.append(Answer(int(choice[0]), cards))
        return score, chosen

    def grants(
        self, chosen: Sequence[Answer], cards: tuple[Card, ...], conf: SchedulerConf
    ) -> tuple[ContainerGrant, ...]:
        """Return what a pod would be given on a node with these cards."""
        grants: tuple[ContainerGrant, ...] = ()
        for question, answer in zip(self.questions, chosen, strict=True):
            grants += question.grants(answer, cards, conf)
        return grants

    def checks(self, view: CardView, conf: SchedulerConf) -> list[Check]:
        """Return the checks of cards that fail; each question sees what the ones before took."""
        found: list[Check] = []
        for number, question in enumerate(self.questions):
            if number:
                self.questions[number - 1].answer(view, conf)
            found += question.checks(view, conf)
        return found


def _asked_of(family: Family, ask: PodAsk, conf: SchedulerConf) -> str:
    """Return the resources by which a pod asks a family; where they are the node's own, all that are no native ones."""
    containers = (*ask.containers, *ask.init_containers)
    asked = {name for each in containers for name, amount in each.resources if amount and not is_native(name)}
    return ", ".join(sorted(asked & family.resources(conf) or asked))
