"""What a pod is worth on every node: one answer for all pods that the nodes cannot tell apart.

Shapes are *alike* where their asks differ only in what makes no difference to nodes: the names of containers, or memory
that comes to the same instance or template. They share one outlook.
"""

from collections.abc import Hashable, Sequence
from weakref import WeakValueDictionary

import numpy as np

from deviceshare.admission import Admission
from deviceshare.cards import Bools, CardTable, Ints
from deviceshare.conf.model import SchedulerConf
from deviceshare.facts import NodeFact, PodAsk
from deviceshare.kernels.best import Best, Order
from deviceshare.kernels.changes import Changes
from deviceshare.kernels.constants import NEVER
from deviceshare.kernels.picking import Floats
from deviceshare.kernels.scores import NodeScores
from deviceshare.kernels.standing import Standing, worth
from deviceshare.models import ModelWish
from deviceshare.node_scores import enter_nodes
from deviceshare.pod_sums import Amounts
from deviceshare.predicates import Rule
from deviceshare.questions import Question, pickers_of
from deviceshare.resources import ResourceTable

_TIE_BREAK = 1e-9
"""What a score counts beside its weighed, rounded value: it decides between nodes that are equal otherwise."""


class Outlook:
    """What pods of some shapes are worth on every node.

    ``standing`` is worth what a placement there would score, weighed; of nodes of equal worth that with the least waste
    (MiB given beyond what is asked) is taken. ``favourites`` is there where a family prefers one node to all others.

    Where the cards are found by kernels (``standing.pickers``) nodes are looked at straight in the table, in one call.
    Otherwise the families are asked in numpy, on a view.
    """

    def __init__(
        self, questions: Sequence[Question], standing: Standing, admission: Admission, favourites: Best | None
    ) -> None:
        self.questions = questions
        """Those of the first of these shapes: what the others waste could not be compared with what is remembered."""
        self.standing = standing
        self.admission = admission
        self.favourites = favourites
        self.version = -1
        """Of the tables by whose codes ``standing`` knows what is asked."""

    def resolve(
        self,
        asked: Amounts,
        models: ModelWish | None,
        cards: CardTable,
        resources: ResourceTable,
        conf: SchedulerConf,
    ) -> None:
        """Look up by which codes the tables know what is asked."""
        standing = self.standing
        standing.columns, standing.wanted = resources.wanted(asked)
        if models is not None:
            standing.choosy = True
            standing.models = models.accepted(cards.type_names).view(np.uint8)
        pickers = pickers_of(self.questions, cards, conf)
        standing.pickers = None if pickers is None else pickers.kernels
        for picker in standing.pickers or ():
            picker.cards = cards.charges
            if picker.offers:
                picker.offered = resources.column(picker.offers)

    def meet(self, facts: Changes, nodes: Sequence[NodeFact | None], ask: PodAsk) -> None:
        """Look again which of ``nodes``, those of all rows, such a pod may use and likes, where a fact has changed."""
        standing = self.standing
        self.admission.refresh(facts, nodes)
        if standing.best.rows < facts.rows:
            standing.best.grow(facts.rows)
            if self.favourites is not None:
                self.favourites.grow(facts.rows)
            standing.admitted = self.admission.admitted.view(np.uint8)
        if standing.scores is not None:
            rows = np.array(facts.found[: facts.since(standing.met)]).tolist()
            enter_nodes(standing.scores, ask, {row: node for row in rows if (node := nodes[row])}, facts.rows)
        standing.met = facts.now

    def worth(self, scores: Floats) -> list[float]:
        """Return what scores of cards (float64[R]) count for their nodes."""
        return [worth(score, self.standing.weight, self.standing.fine) for score in scores.tolist()]

    def put_rows(self, rows: Ints, fits: Bools, key: Floats, waste: Floats, rank: Floats) -> None:
        """Enter what families say of some nodes, all [R].

        That is whether the pod fits, what its cards are worth and waste, and how the family ranks the node.
        """
        key = np.where(fits, key, NEVER)
        if self.standing.scores is not None:
            self.standing.scores.enter_rows(rows, key)
        self.standing.best.put_rows(rows, key, waste)
        if self.favourites is not None:
            self.favourites.put_rows(rows, np.where(fits, rank, NEVER), np.zeros(len(rows)))

    def best(self, bonus: float) -> tuple[int, float]:
        """Return the best node's row, -1 where none fits, and what it scores as the favourite of a family.

        That one scores ``bonus`` more.
        """
        best = self.standing.best
        row = best.first()
        if row < 0 or self.favourites is None:
            return row, 0.0
        favourite = self.favourites.first()
        gained = best.key(favourite) + worth(bonus, self.standing.weight, self.standing.fine)
        if favourite == row or gained > best.key(row):
            return favourite, bonus
        # Of equal ones it is as without the bonus: the waste, then the order.
        if gained == best.key(row) and best.precedes(favourite, row):
            return favourite, bonus
        return row, 0.0


class Outlooks:
    """The outlooks that shapes have by now, under one configuration, and the admissions that these share."""

    def __init__(self, conf: SchedulerConf, order: Order) -> None:
        self._conf = conf
        self._order = order
        self._outlooks: WeakValueDictionary[Hashable, Outlook] = WeakValueDictionary()
        self._admissions: WeakValueDictionary[Rule, Admission] = WeakValueDictionary()

    def get(self, likeness: Hashable) -> Outlook | None:
        """Return the outlook of shapes that are alike, None where there is none yet."""
        return self._outlooks.get(likeness)

    def add(
        self,
        likeness: Hashable,
        questions: Sequence[Question],
        rule: Rule,
        scores: NodeScores | None,
        *,
        favouring: bool,
    ) -> Outlook:
        """Return a new one; ``favouring``: a family prefers one node to all others."""
        admission = self._admissions.get(rule)
        if admission is None:
            admission = self._admissions[rule] = Admission(rule)
        standing = Standing(self._order, self._conf.weight, _fine(self._conf))
        standing.scores = scores
        favourites = Best(self._order) if favouring else None
        outlook = self._outlooks[likeness] = Outlook(questions, standing, admission, favourites)
        return outlook


def _fine(conf: SchedulerConf) -> float:
    """Return what the exact score counts: where it has no weight, and under spread, it decides between equal nodes."""
    return 0.0 if conf.weight and conf.policy == "binpack" else _TIE_BREAK
