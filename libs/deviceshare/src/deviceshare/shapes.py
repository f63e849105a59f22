"""What is known of one ask on every node, and how the families are asked.

Everything is vectorised over nodes; nothing here knows a device family by name.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from deviceshare.cards import Bools, CardView, Ints
from deviceshare.claims import ContainerGrant
from deviceshare.conf.model import SchedulerConf
from deviceshare.errors import Problem, RequestError
from deviceshare.explain import Refusal
from deviceshare.facts import Card, PodAsk
from deviceshare.families import FAMILIES
from deviceshare.families.protocol import MOST_CARDS, Check, Demand, Family, Pick, Places
from deviceshare.models import model_wish
from deviceshare.predicates import Rule
from deviceshare.quantity import is_native
from deviceshare.refusing import everywhere
from deviceshare.resources import pod_resources

Floats = NDArray[np.float64]

_TIE_BREAK = 1e-9
"""What a score counts beside its weighed, rounded value: it decides between nodes that are equal otherwise."""


class Question:
    """One request of a pod, and the families that answer it, each in its own way.

    ``choice`` int64[N] is the answer taken on each node, ``columns`` and ``details`` int64[N, count] its cards.
    """

    def __init__(self, answers: list[tuple[Family, Demand]]) -> None:
        self.answers = answers
        counts = [cards.count for cards in answers[0][1].cards]
        self.choice: Ints = np.zeros(0, dtype=np.int64)
        self.columns: list[Ints] = [np.zeros((0, count), dtype=np.int64) for count in counts]
        self.details: list[Ints] = [np.zeros((0, count), dtype=np.int64) for count in counts]

    def grow(self, more: int) -> None:
        """Make room for so many nodes more."""
        self.choice = np.pad(self.choice, (0, more))
        self.columns = [np.pad(columns, ((0, more), (0, 0))) for columns in self.columns]
        self.details = [np.pad(details, ((0, more), (0, 0))) for details in self.details]

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
                charged.block[:, better] = trial.block[:, better]
                _take(best, places, better)
        if others:
            view.block[:] = charged.block
        return best, choice

    def _nowhere(self, rows: int) -> Places:
        empty = [np.zeros((rows, columns.shape[1]), dtype=np.int64) for columns in self.columns]
        return Places(np.zeros(rows, dtype=np.bool_), empty, empty, np.zeros(rows), np.zeros(rows))

    def enter(self, rows: Ints, places: Places, choice: Ints) -> None:
        """Remember the answer for these nodes."""
        self.choice[rows] = choice
        for columns, picked in zip(self.columns, places.columns, strict=True):
            columns[rows] = picked
        for details, picked in zip(self.details, places.details, strict=True):
            details[rows] = picked

    def grants(self, row: int, cards: tuple[Card, ...], conf: SchedulerConf) -> tuple[ContainerGrant, ...]:
        """Return the grants that the answer on a node stands for."""
        family, demand = self.answers[int(self.choice[row])]
        chosen = [
            [Pick(cards[column], detail) for column, detail in zip(columns, details, strict=True)]
            for columns, details in zip(
                (columns[row].tolist() for columns in self.columns),
                (details[row].tolist() for details in self.details),
                strict=True,
            )
        ]
        return family.grants(demand, chosen, conf)

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
    """What is known of one ask on every node.

    ``key`` float64[N] is what a node is worth, -inf where the pod does not fit; of equal ones that with the least
    ``waste`` (MiB given beyond what is asked) is taken. ``rank`` float64[N] is there where a family prefers one node
    to all others; that one's key counts ``bonus`` more.
    """

    def __init__(self, ask: PodAsk, conf: SchedulerConf) -> None:
        self.problem: Problem | None = None
        self.questions: list[Question] = []
        self.disabled: list[Family] = []
        self.unsupported = ask.unsupported
        self.resources = pod_resources(ask, self._ask_families(ask, conf))
        self.rule = Rule.of(ask, self._hardware())
        self.models = model_wish(ask, self.resources)
        self.caveats: tuple[str, ...] = ()
        self.caveats_at = -1
        """The version of the cluster's types of cards that ``caveats`` are about."""
        self.seen = -1
        self.admitted: Bools = np.zeros(0, dtype=np.bool_)
        self.admitted_at: Ints = np.zeros(0, dtype=np.int64)
        """The version of each node's fact that ``admitted`` is true of."""
        self.key: Floats = np.zeros(0)
        self.score: Floats = np.zeros(0)
        self.waste: Floats = np.zeros(0)
        self.bonus = max(
            (family.best_node_score for question in self.questions for family, _ in question.answers), default=0.0
        )
        self.rank: Floats | None = np.zeros(0) if self.bonus else None

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

    def grow(self, total: int) -> None:
        """Make room for so many nodes in all."""
        more = total - len(self.key)
        if more <= 0:
            return
        self.admitted = np.pad(self.admitted, (0, more))
        self.admitted_at = np.pad(self.admitted_at, (0, more))
        self.key = np.concatenate([self.key, np.full(more, -np.inf)])
        self.score = np.concatenate([self.score, np.zeros(more)])
        self.waste = np.concatenate([self.waste, np.zeros(more)])
        if self.rank is not None:
            self.rank = np.concatenate([self.rank, np.zeros(more)])
        for question in self.questions:
            question.grow(more)

    def evaluate(self, rows: Ints, view: CardView | None, conf: SchedulerConf) -> None:
        """Ask the families in turn about these nodes, on a view that each charges for the next."""
        fits: Bools = np.ones(len(rows), dtype=np.bool_)
        key, score, waste, rank = (np.zeros(len(rows)) for _ in range(4))
        for question in self.questions:
            assert view is not None
            places, choice = question.answer(view, conf)
            question.enter(rows, places, choice)
            fits &= places.fits
            score += places.score
            waste += places.waste
            if places.rank is not None:
                rank += places.rank
            key += worth(places.score, conf)
        self.key[rows] = np.where(fits, key, -np.inf)
        self.score[rows] = score
        self.waste[rows] = waste
        if self.rank is not None:
            self.rank[rows] = rank

    def best(self, ranks: Callable[[], Ints], conf: SchedulerConf) -> tuple[int, float] | None:
        """Return the best node's row and the devices' score there, None where none fits.

        Ties go to the lowest of ``ranks`` int64[N].
        """
        key, bonus = self.key, -1
        if not len(key) or key[row := int(key.argmax())] == -np.inf:
            return None
        if self.rank is not None:
            able = np.flatnonzero(key > -np.inf)
            bonus = _first(able[self.rank[able] == self.rank[able].max()], ranks)
            key = key.copy()
            key[bonus] += float(worth(np.array(self.bonus), conf))
            row = int(key.argmax())
        ties = np.flatnonzero(key == key[row])
        if len(ties) > 1:
            waste = self.waste[ties]
            row = _first(ties[waste == waste.min()], ranks)
        return row, float(self.score[row]) + (self.bonus if row == bonus else 0.0)

    def grants(self, row: int, cards: tuple[Card, ...], conf: SchedulerConf) -> tuple[ContainerGrant, ...]:
        """Return what a pod would be given on a node."""
        return tuple(grant for question in self.questions for grant in question.grants(row, cards, conf))

    def checks(self, view: CardView, conf: SchedulerConf) -> list[Check]:
        """Return the checks of cards that fail; each question sees what the ones before took."""
        found: list[Check] = []
        for number, question in enumerate(self.questions):
            if number:
                self.questions[number - 1].answer(view, conf)
            found += question.checks(view, conf)
        return found


def worth(score: Floats, conf: SchedulerConf) -> Floats:
    """Return what the score of one family counts for a node.

    Volcano rounds it to an integer before it is weighed (plugins/deviceshare/deviceshare.go), and nodes that are equal
    then are equal. Where it has no score, without a weight and under spread, the exact one decides between them.
    """
    value: Floats = np.floor(score + 0.5) * conf.weight
    if not conf.weight or conf.policy != "binpack":
        value += score * _TIE_BREAK
    return value


def _asked_of(family: Family, ask: PodAsk, conf: SchedulerConf) -> str:
    """Return the resources by which a pod asks a family; where they are the node's own, all that are no native ones."""
    containers = (*ask.containers, *ask.init_containers)
    asked = {name for each in containers for name, amount in each.resources if amount and not is_native(name)}
    return ", ".join(sorted(asked & family.resources(conf) or asked))


def _first(rows: Ints, ranks: Callable[[], Ints]) -> int:
    return int(rows[0]) if len(rows) == 1 else int(rows[ranks()[rows].argmin()])
