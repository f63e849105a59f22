"""Pods with equal requests: the request as every device family reads it, and the ranking of the nodes for it.

Nothing here names a device family.
"""

from collections.abc import Callable, Hashable, Sequence

import numpy as np
from msgspec.structs import replace

from deviceshare.allocation.card_models import model_wish
from deviceshare.allocation.card_request import WITHOUT_CARDS, CardChoice, CardRequest, CardSelectors, selectors_of
from deviceshare.allocation.first_failing import only, stages
from deviceshare.allocation.inter_pod import InterPod
from deviceshare.allocation.node_ranking import NodeRanking, RankingCache
from deviceshare.allocation.node_scores import counted, node_scores, of_devices, scored
from deviceshare.allocation.predicates import Rule
from deviceshare.allocation.proportions import proportions
from deviceshare.conf import SchedulerConf
from deviceshare.families import FAMILIES, MAX_CARDS, Check, Demand, ExpectedDemand, Family, FamilyError, calling
from deviceshare.kernels import Floats, NodeAmounts
from deviceshare.model import (
    Card,
    ContainerGrant,
    PodRequest,
    Problem,
    Refusal,
    RequestError,
    ResourceAmounts,
    is_native,
)
from deviceshare.state import Bools, CardView, Ints, pod_resources


class PodClass:
    """Pods with equal requests: a handle that the records of pods keep, and what is read under the configuration.

    Classes whose differences make no difference to any node share a ``ranking``. A class has one only while it is used:
    see :class:`~.pod_classes.PodClasses`.
    """

    request: PodRequest
    conf: SchedulerConf
    """The configuration under which the request was read, with the policies of its pods."""
    ranking: NodeRanking
    """The one in use: ``own`` while ``common`` has short rows."""
    common: NodeRanking
    """Shared with classes that request other amounts of device resources, as kubelet counts them, where there can be
    such classes. It answers for this class as long as it has no short rows."""

    def __init__(self, request: PodRequest) -> None:
        self.request = request
        self.generation = -1
        """Of the configuration under which the request was read; -1: it was not read yet."""
        self.version = -1
        """Of the tables by whose codes ``ranking`` was chosen; -1: there is none."""
        self.own: NodeRanking | None = None
        """The ranking that takes exactly these amounts into account, once the common one had short rows."""
        self.inter_pod: InterPod | None = None
        """Its constraints about other pods and volumes, or None if it has none or no ranking."""
        self.near_pods = request.topology is not None or bool(request.imposed)
        """Whether it has inter-pod constraints, or those of other pods select it."""
        self.terms = len(request.imposed) + (0 if request.topology is None else request.topology.terms)
        """The number of its inter-pod constraints, and of those of other pods that select it."""
        self.has_volumes = bool(request.claims or request.disks)
        """Whether it has volumes that may restrict it to some nodes."""
        self.constrained = self.near_pods or self.has_volumes or bool(request.devices)

    def read(self, conf: SchedulerConf, generation: int) -> None:
        """Read the request under a configuration, and drop the ranking."""
        request = self.request
        conf = conf.for_pod(request.policies)
        self.drop_ranking()
        self.problem: Problem | None = None
        """Why the request is invalid."""
        self.card_requests: tuple[CardRequest, ...]
        self.family_errors: list[FamilyError] = []
        """Bugs of families that the request brought to light."""
        self.disabled: list[Family] = []
        """Families that the configuration turns off, where no other answers the same request."""
        self.unsupported = tuple(field for field in request.unevaluated if conf.predicates.refuses(field))
        """Fields of the pod that nothing evaluates."""
        self._devices = self._ask_families(request, conf)
        """The resources by which devices are requested."""
        self.unschedulable = bool(self.problem or self.disabled or self.unsupported or self.family_errors)
        """Whether no node of any cluster is feasible."""
        self.resources = pod_resources(request, self._devices)
        """How much of the node's own resources a pod takes."""
        self.cpu = dict(self.resources).get("cpu", 0)
        self.measured = conf.scoring.fragmentation or conf.ordering.fragmentation
        """Whether nodes or cards are chosen by fragmentation."""
        self.ports = request.host_ports if conf.predicates.node_ports else ()
        """The host ports that have to be free."""
        self.proportions = proportions(request, conf.predicates.proportions)
        """What nodes have to keep free for pods of other resources."""
        self.of_devices = of_devices(request, self._devices)
        """What a pod requests of the resources of device families, as kubelet counts it where nodes limit them."""
        self.counted = counted(request, self._devices)
        """What nodes count in addition to ``resources``."""
        self.rule = Rule.of(request, self._hardware(), conf.predicates)
        self.models = model_wish(request, self.resources, parts=conf.type_parts)
        self.caveats: tuple[str, ...] = ()
        self.caveats_at = -1
        """The version of the cluster's card types that ``caveats`` are about."""
        self._numbers: tuple[int, ...] = ()
        """For each selector of the ranking the number of the answer that it stands for."""
        self.bonus = max(
            (family.best_node_score for card_request in self.card_requests for family, _ in card_request.answers),
            default=0.0,
        )
        """What a family adds to the score of the one node that it ranks first."""
        self.conf = conf
        self.generation = generation

    def drop_ranking(self) -> None:
        """Release the ranking; the next :meth:`resolve` finds it again."""
        if self.version != -1:
            del self.ranking, self.common
            self.own = None
            self.version = -1
        if self.inter_pod is not None:
            self.inter_pod.close()
            self.inter_pod = None

    def _ask_families(self, request: PodRequest, conf: SchedulerConf) -> frozenset[str]:
        """Ask every family for its demand; return the resources that families account for."""
        handled: set[str] = set()
        asked: dict[str, list[tuple[Family, Demand]]] = {}
        disabled: dict[str, Family] = {}
        problems: dict[str, Problem] = {}
        for family in FAMILIES:
            handled |= family.resources(conf)
            answered = family.answers or family.name
            try:
                with calling(family.name, "demand"):
                    demand = family.demand(request, conf)
            except RequestError as error:
                problems.setdefault(answered, error.problem)
                continue
            except FamilyError as error:
                # Whether the pod requests cards of the family is not known, so that the pod has to wait.
                self.family_errors.append(error)
                continue
            if demand is None:
                continue
            most = max((cards.count for cards in demand.cards), default=0)
            if most > MAX_CARDS:
                expected = f"at most {MAX_CARDS} of one node: more pods, of a gang"
                problems.setdefault(answered, Problem("Pod", f"spec: cards of {family.name}", str(most), expected))
                continue
            if family.flag in conf.families:
                asked.setdefault(answered, []).append((family, demand))
            else:
                disabled.setdefault(answered, family)
        self.card_requests = tuple(CardRequest(answers) for answers in asked.values())
        self.problem = next((problem for answered, problem in problems.items() if answered not in asked), None)
        self.disabled = [family for answered, family in disabled.items() if answered not in asked]
        return frozenset(handled)

    def _hardware(self) -> frozenset[str]:
        """Return the names of the hardware whose cards the pod requests, shared or whole."""
        asked = {name for name, _ in self.resources}
        cut = {family.hardware.name for card_request in self.card_requests for family, _ in card_request.answers}
        whole = {
            family.hardware.name for family in FAMILIES if any(family.hardware.offers_whole(name) for name in asked)
        }
        return frozenset(cut | whole)

    def for_no_node(self) -> tuple[Refusal, ...]:
        """Return why no node of any cluster is feasible, the ``problem`` aside."""
        unsupported = [
            Refusal(code="NotEvaluated", text=f"the pod uses {field}, which is not evaluated yet", nodes=0)
            for field in self.unsupported
        ]
        disabled = [
            Refusal(
                code="FamilyDisabled",
                text=f"the pod requests {self._resources_of(family)}: "
                f"set {family.flag}: true in volcano-scheduler.conf",
                nodes=0,
            )
            for family in self.disabled
        ]
        bugs = [Refusal(code="DeviceFamilyFailed", text=str(error), nodes=0) for error in self.family_errors]
        return (*unsupported, *disabled, *bugs)

    def resolve(self, rankings: RankingCache, version: int) -> None:
        """Find or add the ranking; ``version`` is that of the tables, whose codes it uses."""
        cards, resources = rankings.cards, rankings.resources
        selectors = selectors_of(self.card_requests, cards, self.conf)
        self._numbers = selectors.numbers if selectors is not None else ()
        self.own = None
        limited = resources.limited(self.of_devices)
        if limited and selectors is not None and selectors.kernels and all(each.fitting for each in selectors.kernels):
            # Many amounts result in the same part of a card.
            names = tuple(name for name, _ in limited)
            self.common = self._find(selectors, self.resources, names, rankings, version)
            self.common.node_index.cover(*resources.columns(limited), resources.amounts)
        else:
            self.common = self._find(selectors, self.resources + limited, (), rankings, version)
        self.version = version

    def rank_alone(self, rankings: RankingCache) -> None:
        """Use the ranking by exactly the amounts that the class requests, in place of the common one."""
        if self.own is None:
            selectors = selectors_of(self.card_requests, rankings.cards, self.conf)
            wanted = self.resources + rankings.resources.limited(self.of_devices)
            self.own = self._find(selectors, wanted, (), rankings, self.version)
        self.ranking = self.own

    def _find(
        self,
        selectors: CardSelectors | None,
        wanted: ResourceAmounts,
        names: tuple[str, ...],
        rankings: RankingCache,
        version: int,
    ) -> NodeRanking:
        """Find or add a ranking; ``wanted``: what has to be free; ``names``: what else is limited, in any amount."""
        equivalence_key = self._equivalence_key(selectors, wanted, names)
        ranking = rankings.get(equivalence_key)
        if ranking is None:
            scores = node_scores(self.request, self.conf, rankings.resources)
            favouring = bool(self.bonus)
            ranking = rankings.add(
                equivalence_key, self.card_requests, self.rule, scores, self.conf, favouring=favouring
            )
        if ranking.version != version:
            ranking.version = version
            ranking.resolve(wanted, self.models, rankings.cards, rankings.resources, self.conf)
            ranking.measure_by(rankings.fragmentation if self.measured else None, self.cpu, self.conf)
        return ranking

    def _equivalence_key(
        self, selectors: CardSelectors | None, wanted: ResourceAmounts, names: tuple[str, ...]
    ) -> Hashable:
        """Return all that decides which nodes are feasible and what they score; arguments as of :meth:`_find`."""
        if selectors is None or any(each.equivalence_key is None for each in selectors.kernels):
            # Rankings know nothing of volumes and devices, and the claims of replicas have other names.
            return replace(self.request, volumes=(), claims=(), disks=(), devices=())
        kernels = (selectors.numbers, tuple(each.equivalence_key for each in selectors.kernels))
        nodes = (self.rule, self.request.preferences, self.ports, wanted, names, self.models)
        policies = (self.conf.node_policy, self.conf.card_policy)
        return (kernels, nodes, policies, scored(self.request, self.conf))

    def evaluate(self, rows: Ints, view: CardView) -> None:
        """Ask the families in turn about these nodes, on a view that each charges for the next one."""
        fits: Bools = np.ones(len(rows), dtype=np.bool_)
        key, waste, rank = (np.zeros(len(rows)) for _ in range(3))
        for card_request in self.card_requests:
            places, _ = card_request.answer(view, self.conf)
            fits &= places.fits
            waste += places.waste
            if places.rank is not None:
                rank += places.rank
            key += self.ranking.weighted_score(places.score)
        if self.ranking.node_index.fragmentation is not None:
            key = np.array(self.ranking.weighted_score(self._steps(rows, view)))
        self.ranking.put_rows(rows, fits, key, waste, rank)

    def best(self) -> tuple[int, float]:
        """Return the row of the best node, -1 where none is feasible, and what it scores as a family's first choice."""
        return self.ranking.best(self.bonus) if self.bonus else (self.ranking.node_index.best.first(), 0.0)

    def chosen(
        self, row: int, amounts: NodeAmounts, view: Callable[[Ints], CardView]
    ) -> tuple[float, list[CardChoice]]:
        """Return what the chosen cards of a node score, and the choice for each card request."""
        node_index = self.ranking.node_index
        if node_index.selectors is not None:
            if not node_index.selectors:
                return 0.0, [CardChoice(WITHOUT_CARDS, []) for _ in self.card_requests]
            number = node_index.choose(amounts, row)
            return float(node_index.score), [CardChoice(self._numbers[number], [node_index.selectors[number].chosen()])]
        score, chosen = 0.0, list[CardChoice]()
        one = view(np.array([row]))
        for card_request in self.card_requests:
            places, choice = card_request.answer(one, self.conf)
            score += float(places.score[0])
            cards = [
                list(zip(columns[0].tolist(), details[0].tolist(), strict=True))
                for columns, details in zip(places.columns, places.details, strict=True)
            ]
            chosen.append(CardChoice(int(choice[0]), cards))
        if node_index.fragmentation is not None:
            score = float(self._steps(np.array([row]), one)[0])
        return score, chosen

    def _steps(self, rows: Ints, view: CardView) -> Floats:
        """Return by how many steps a pod that is charged in a view makes nodes less fragmented."""
        fragmentation = self.ranking.node_index.fragmentation
        assert fragmentation is not None
        return fragmentation.steps_of_rows(view.block, rows, self.cpu)

    def grants(
        self, chosen: Sequence[CardChoice], cards: tuple[Card, ...], expected: ExpectedDemand
    ) -> tuple[ContainerGrant, ...]:
        """Return the grants that the choices mean on a node with these cards."""
        grants: tuple[ContainerGrant, ...] = ()
        for card_request, answer in zip(self.card_requests, chosen, strict=True):
            grants += card_request.grants(answer, cards, self.conf, expected)
        return grants

    def checks(self, view: CardView) -> list[Check]:
        """Return the checks of cards that fail; each card request sees what the ones before it took."""
        found: list[Check] = []
        for number, card_request in enumerate(self.card_requests):
            if number:
                self.card_requests[number - 1].answer(view, self.conf)
            decided = stages(found, len(view.mode)) >= 0
            found += [only(check, ~decided) for check in card_request.checks(view, self.conf)]
        return found

    def _resources_of(self, family: Family) -> str:
        """Return the resources by which the pod requests cards of a family.

        Where these are the node's own resources, all resources that are not native ones.
        """
        containers = (*self.request.containers, *self.request.init_containers)
        asked = {name for each in containers for name, amount in each.resources if amount and not is_native(name)}
        return ", ".join(sorted(asked & family.resources(self.conf) or asked))
