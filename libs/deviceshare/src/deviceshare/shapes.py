"""What is known of one ask on every node, and how the families are asked.

Everything is vectorised over nodes; nothing here knows a device family by name.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from deviceshare.cards import Bools, CardTable, CardView, Ints
from deviceshare.claims import ContainerGrant
from deviceshare.conf.model import SchedulerConf
from deviceshare.errors import Problem, RequestError
from deviceshare.explain import Refusal
from deviceshare.facts import Card, PodAsk
from deviceshare.families import FAMILIES
from deviceshare.families.protocol import MOST_CARDS, Check, Demand, Family, Pick, Places
from deviceshare.kernels.best import Best, Order
from deviceshare.kernels.charges import Amounts
from deviceshare.kernels.constants import NEVER
from deviceshare.kernels.picking import Picker
from deviceshare.kernels.standing import Standing, worth
from deviceshare.kinds import Codes
from deviceshare.models import model_wish
from deviceshare.node_scores import counted, node_scores
from deviceshare.pod_sums import pod_resources
from deviceshare.predicates import Rule
from deviceshare.quantity import is_native
from deviceshare.refusing import everywhere
from deviceshare.resources import ResourceTable

_TIE_BREAK = 1e-9
"""What a score counts beside its weighed, rounded value: it decides between nodes that are equal otherwise."""


class Answer(NamedTuple):
    """The number of an answer, and for each of the demand's ``cards`` column and detail of what is chosen."""

    number: int
    chosen: list[list[tuple[int, int]]]


class Question:
    """One request of a pod, and the families that answer it, each in its own way."""

    def __init__(self, answers: list[tuple[Family, Demand]]) -> None:
        self.answers = answers
        self._counts = [cards.count for cards in answers[0][1].cards]

    def pickers(self, codes: Codes, conf: SchedulerConf) -> list[tuple[int, Picker]] | None:
        """Return the kernels of the families that have cards, each with the number of its answer.

        None: some family answers on a view only.
        """
        found = []
        for number, (family, demand) in enumerate(self.answers):
            if not family.modes or any(codes.kinds.modes.find(mode) > 0 for mode in family.modes):
                picker = family.picker(demand, codes, conf)
                if picker is None:
                    return None
                found.append((number, picker))
        return found or None

    def answer(self, view: CardView, conf: SchedulerConf) -> tuple[Places, Ints]:
        """Return the best answer on each node of the view and its number; charges it in the view."""
        able = [
            (number, family, demand)
            for number, (family, demand) in enumerate(self.answers)
            if not family.modes or bool(view.of_modes(family.modes).any())
        ]
        rows = view.mode.shape[0]
        if not able:
            return self._nowhere(rows), np.zeros(rows, dtype=np.int64)
        (first, family, demand), *others = able
        charged = view.copy() if others else view
        best = family.place(demand, charged, conf)
        choice = np.full(rows, first, dtype=np.int64)
        for number, family, demand in others:
            trial = view.copy()
            places = family.place(demand, trial, conf)
            better = places.fits & (
                ~best.fits | (places.score > best.score) | ((places.score == best.score) & (places.waste < best.waste))
            )
            if better.any():
                choice[better] = number
                charged.block[better] = trial.block[better]
                _take(best, places, better)
        if others:
            view.block[:] = charged.block
        return best, choice

    def _nowhere(self, rows: int) -> Places:
        empty = [np.zeros((rows, count), dtype=np.int64) for count in self._counts]
        return Places(np.zeros(rows, dtype=np.bool_), empty, empty, np.zeros(rows), np.zeros(rows))

    def grants(self, answer: Answer, cards: tuple[Card, ...], conf: SchedulerConf) -> tuple[ContainerGrant, ...]:
        """Return the grants that an answer on a node with these cards stands for."""
        family, demand = self.answers[answer.number]
        picks = [[Pick(cards[column], detail) for column, detail in each] for each in answer.chosen]
        return family.grants(demand, picks, conf)

    def checks(self, view: CardView, conf: SchedulerConf) -> list[Check]:
        """Return the checks that fail, on each node those of the families whose cards it has."""
        total = len(view.mode)
        return [
            everywhere(check, rows, total)
            for rows, (family, demand) in self._askable(view)
            for check in family.checks(demand, view.part(rows), conf)
        ]

    def _askable(self, view: CardView) -> list[tuple[Ints, tuple[Family, Demand]]]:
        """Return the families to ask, each with the numbers of the view's rows that it is asked about.

        A node that has cards of none of them is asked about once, so that it is counted once.
        """
        has = [view.of_modes(family.modes).any(axis=1) for family, _ in self.answers]
        has[0] = has[0] | ~np.logical_or.reduce(has)
        return [(np.flatnonzero(rows), answer) for rows, answer in zip(has, self.answers, strict=True) if rows.any()]


def _take(best: Places, other: Places, rows: Bools) -> None:
    """Replace an answer by another on some rows."""
    for mine, theirs in ((best.fits, other.fits), (best.score, other.score), (best.waste, other.waste)):
        mine[rows] = theirs[rows]
    for chosen, others in zip((*best.columns, *best.details), (*other.columns, *other.details), strict=True):
        chosen[rows] = others[rows]


class Shape:
    """One ask, read by every family, and what it is worth on every node.

    ``standing`` is worth what a placement there would score, weighed; of nodes of equal worth that with the least waste
    (MiB given beyond what is asked) is taken. ``favourites`` is there where a family prefers one node to all others;
    that one counts ``bonus`` more.

    Where each container's cards are found by a kernel there are ``pickers``: then nodes are looked at straight in the
    table, in one call. Otherwise the families are asked in numpy, on a view.
    """

    def __init__(self, ask: PodAsk, conf: SchedulerConf, order: Order, resources: ResourceTable) -> None:
        self.ask = ask
        self.problem: Problem | None = None
        self.questions: list[Question] = []
        self.disabled: list[Family] = []
        self.unsupported = tuple(field for field in ask.unsupported if conf.predicates.refuses(field))
        devices = self._ask_families(ask, conf)
        self.resources = pod_resources(ask, devices)
        self.ports = ask.host_ports if conf.predicates.node_ports else ()
        """Those that have to be free."""
        self.counted = counted(ask, conf, devices)
        """What scores count of such a pod on a node beside ``resources``."""
        self.rule = Rule.of(ask, self._hardware(), conf.predicates)
        self.models = model_wish(ask, self.resources)
        self.caveats: tuple[str, ...] = ()
        self.caveats_at = -1
        """The version of the cluster's types of cards that ``caveats`` are about."""
        self.admitted: Bools = np.zeros(0, dtype=np.bool_)
        self.version = -1
        """Of the tables whose codes ``pickers`` and the plain amounts of ``standing`` are made of."""
        self.facts_seen = -1
        self.standing = Standing(order, conf.weight, _fine(conf))
        self.standing.scores = node_scores(ask, conf, devices, resources)
        self.pickers: list[Picker] | None = None
        self._numbers: list[int] = []
        """Of each picker, which answer it is."""
        self.bonus = max(
            (family.best_node_score for question in self.questions for family, _ in question.answers), default=0.0
        )
        self.favourites = Best(order) if self.bonus else None

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
        self.questions = [Question(answers) for answers in asked.values()]
        self.problem = next((problem for request, problem in problems.items() if request not in asked), None)
        self.disabled = [family for request, family in disabled.items() if request not in asked]
        return frozenset(handled)

    def _hardware(self) -> frozenset[str]:
        """Return the names of the hardware of which the pod asks cards, cut or whole."""
        asked = {name for name, _ in self.resources}
        cut = {family.hardware.name for question in self.questions for family, _ in question.answers}
        whole = {family.hardware.name for family in FAMILIES if family.hardware.whole in asked}
        return frozenset(cut | whole)

    @property
    def hopeless(self) -> bool:
        """Whether no node of any cluster would take it."""
        return bool(self.problem or self.disabled or self.unsupported)

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

    def grow(self, rows: int) -> None:
        """Make room for so many nodes."""
        standing = self.standing
        standing.best.grow(rows)
        if self.favourites is not None:
            self.favourites.grow(rows)
        self.admitted = np.pad(self.admitted, (0, rows - len(self.admitted)))
        standing.admitted = self.admitted.view(np.uint8)

    def resolve(self, cards: CardTable, resources: ResourceTable, conf: SchedulerConf) -> None:
        """Look up by which codes the tables know what is asked."""
        standing = self.standing
        standing.columns, standing.wanted = resources.wanted(self.resources)
        if self.models is not None:
            standing.choosy = True
            standing.models = self.models.accepted(cards.type_names).view(np.uint8)
        self.pickers = [] if not self.questions else None
        if len(self.questions) == 1 and (found := self.questions[0].pickers(cards, conf)) is not None:
            self._numbers = [number for number, _ in found]
            self.pickers = [picker for _, picker in found]
            for picker in self.pickers:
                picker.cards = cards.charges
                if picker.offers:
                    picker.offered = resources.column(picker.offers)

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
            key += [worth(score, self.standing.weight, self.standing.fine) for score in places.score.tolist()]
        key = np.where(fits, key, NEVER)
        if self.standing.scores is not None:
            self.standing.scores.enter_rows(rows, key)
        self.standing.best.put_rows(rows, key, waste)
        if self.favourites is not None:
            self.favourites.put_rows(rows, np.where(fits, rank, NEVER), np.zeros(len(rows)))

    def best(self) -> tuple[int, float]:
        """Return the best node's row, -1 where none fits, and what it scores as the favourite of a family."""
        best = self.standing.best
        row = best.first()
        if row < 0 or self.favourites is None:
            return row, 0.0
        favourite = self.favourites.first()
        gained = best.key(favourite) + worth(self.bonus, self.standing.weight, self.standing.fine)
        if favourite == row or gained > best.key(row):
            return favourite, self.bonus
        # Of equal ones it is as without the bonus: the waste, then the order.
        if gained == best.key(row) and best.precedes(favourite, row):
            return favourite, self.bonus
        return row, 0.0

    def chosen(
        self, row: int, amounts: Amounts, view: Callable[[], CardView], conf: SchedulerConf
    ) -> tuple[float, list[Answer]]:
        """Return what the cards of a node score, and the answer to each question."""
        if self.pickers is not None:
            if not self.pickers:
                return 0.0, []
            number = self.standing.choose(amounts, self.pickers, row)
            return float(self.standing.score), [Answer(self._numbers[number], [self.pickers[number].chosen()])]
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
        return tuple(
            grant
            for question, answer in zip(self.questions, chosen, strict=True)
            for grant in question.grants(answer, cards, conf)
        )

    def checks(self, view: CardView, conf: SchedulerConf) -> list[Check]:
        """Return the checks of cards that fail; each question sees what the ones before took."""
        found: list[Check] = []
        for number, question in enumerate(self.questions):
            if number:
                self.questions[number - 1].answer(view, conf)
            found += question.checks(view, conf)
        return found


def _fine(conf: SchedulerConf) -> float:
    """Return what the exact score counts: where it has no weight, and under spread, it decides between equal nodes."""
    return 0.0 if conf.weight and conf.policy == "binpack" else _TIE_BREAK


def _asked_of(family: Family, ask: PodAsk, conf: SchedulerConf) -> str:
    """Return the resources by which a pod asks a family; where they are the node's own, all that are no native ones."""
    containers = (*ask.containers, *ask.init_containers)
    asked = {name for each in containers for name, amount in each.resources if amount and not is_native(name)}
    return ", ".join(sorted(asked & family.resources(conf) or asked))
