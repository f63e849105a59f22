"""The scheduler of one cluster: facts and claims in, decisions and reasons out."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from itertools import chain
from typing import NamedTuple

from msgspec.structs import replace

from deviceshare.allocation import Movable, Move, Placement, PodClass, Unplaceable, measure, plan
from deviceshare.conf import SchedulerConf
from deviceshare.model import AnyFact, Backoff, Claim, Eviction, Explanation, GroupKey, Now, PodFact, PodRequest
from deviceshare.preemption import Preemption
from deviceshare.queueing import Decision
from deviceshare.scheduler import explaining
from deviceshare.scheduler.arrivals import begin_to_count, count_if_configured
from deviceshare.scheduler.deciding import Deciding, Round
from deviceshare.scheduler.facts import Applied, Facts
from deviceshare.scheduler.known import Known
from deviceshare.scheduler.overcommit import overcommitted_claims
from deviceshare.scheduler.ownership import EVERYTHING, Ownership
from deviceshare.scheduler.preempting import Preempting
from deviceshare.scheduler.preemption_round import PreemptionRound
from deviceshare.scheduler.records import GroupRecord
from deviceshare.scheduler.reporter import Reporter
from deviceshare.scheduler.trial import SchedulerTrial

RETRY = Backoff(0.5, 30.0)
"""Seconds until a pod whose claim was refused is decided again; doubles with each refusal."""
PROMPT_RETRIES = 3
"""Refusals after which a pod counts as one that waits with its reason."""


class MovePlan(NamedTuple):
    """Moves of placed pods, and the fragmentation of all nodes before and after them, in thousandths of a card."""

    moves: tuple[Move, ...]
    before: float
    after: float


class Scheduler(Known):
    """Decides which node and which devices each pod of a cluster gets, and says why the others wait.

    :meth:`apply` and :meth:`claim` change what it knows; :meth:`round` decides what can be decided, and charges it.
    A decision stands when it is in the claims of its node; :meth:`release` takes one back that does not get there.
    Monotonic times are in seconds.

    Args:
        name: the ``decided_by`` of claims and explanations.
    """

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self._reporter = Reporter()
        self._deciding = Deciding(self.cluster, self._reporter, name)
        self._preempting = Preempting(self.cluster)
        self._preemption_round = PreemptionRound(self.cluster, self._preempting)
        self._facts = Facts(self.cluster, self._deciding, name)

    # What changes it

    def apply(self, key: str, fact: AnyFact, now: Now) -> Applied:
        """Apply a fact; ``key`` is the same for all facts of one object, and tells which object is gone."""
        return self._facts.apply(key, fact, now)

    def configure(self, conf: SchedulerConf) -> None:
        """Decide by a configuration that no fact has."""
        self.cluster.configure(conf)
        count_if_configured(self.cluster)

    def count_arrivals(self) -> None:
        """Count the pods that are known, and those that arrive, as expected again, whatever the policy."""
        begin_to_count(self.cluster)

    def pause(self, node: str, reason: str) -> None:
        """Set why a node takes no pods whatever its fact says, '' for no reason."""
        self._facts.pause(node, reason)

    def set_invalid(self, uid: str, reason: str) -> None:
        """Set why a pod cannot be decided: its last fact is not valid; '' for no reason."""
        self._facts.set_invalid(uid, reason)

    def begin(self) -> None:
        """Note that all facts and claims that existed at the start have been applied.

        From now on claims of unknown pods count in their queues: the facts of the pods are on their way, or never come.
        """
        self.cluster.count_claims()
        for record in self.cluster.pods.values():
            # It was seen by a predecessor, at a time that is not known.
            record.seen_at = min(record.seen_at, record.fact.created or record.seen_at)

    def claim(
        self, node: str, claims: Iterable[Claim], evictions: Iterable[Eviction] = ()
    ) -> tuple[list[Claim], list[Claim]]:
        """Make these the claims and evictions on a node, of all replicas; return the gone claims, and the new ones."""
        gone, new, changed = self.cluster.set_ledger(node, claims, evictions)
        for claim in (*gone, *new, *changed):
            self.cluster.charge(node, claim.uid)
            if (pod := self.cluster.pods.get(claim.uid)) is not None:
                self.cluster.changed(pod)
        return gone, new

    def release(self, node: str, uid: str, *, again: bool = True) -> None:
        """Take back a decision that is not among the claims of its node; ``again``: decide the pod in the next round.

        A pod with a claim on the node keeps what the claim says.
        """
        self.cluster.charge(node, uid)
        if again:
            self.cluster.reconsider_pod(uid)

    def put_back(self, decision: Decision, now: Now, too_wide: str = "") -> None:
        """Take back the decision of a group, which is decided again.

        ``too_wide``: why no such decision can stand; then it is decided again when there is other room.
        """
        for pod, placement in decision.placed:
            self.cluster.charge(placement.node, pod.uid)
            if too_wide:
                self._reporter.put(explaining.pending(pod, too_wide, now.wall, self.name))
        if too_wide:
            self.cluster.too_wide.add(decision.group.key)
        else:
            self.cluster.reconsider(decision.group.key)

    def retry_at(self, uid: str, at: float) -> None:
        """Decide a pod not before a monotonic time."""
        self._deciding.retries[uid] = at
        self.cluster.reconsider_pod(uid)

    def forget_ledger(self, node: str) -> None:
        """Forget the ledger of a node, which has no claims."""
        del self.cluster.ledgers[node]

    def prefer(self, preference: Callable[[str], tuple[int, int]]) -> None:
        """Prefer, among nodes that are equal otherwise, those for whose names this returns less."""
        self.cluster.allocator.prefer(preference)

    def keep_for_others(self, claimed: Mapping[str, Set[str]]) -> None:
        """Let no queue borrow what queues claim that are decided elsewhere: their names by resource."""
        self.cluster.accounts.claimed_elsewhere = claimed

    def decide_all(self) -> None:
        """Decide every group in the next round, as if it had changed."""
        self.cluster.reconsider_all()

    def refuse(self, uid: str, reason: str, now: float) -> None:
        """Decide a pod again after a pause that grows with each call; ``reason``: why its claim was refused."""
        record = self.cluster.pods[uid]
        record.refusal = reason
        self.retry_at(uid, now + RETRY.delay(record.refusals))
        record.refusals += 1

    # Decisions

    def round(self, now: Now, ownership: Ownership = EVERYTHING, avoided: Collection[str] = ()) -> Round:
        """Decide what can be decided, of the groups that are owned, and charge it.

        A pod goes to one of the ``avoided`` nodes only if it fits on no other.
        """
        self.cluster.allocator.devices.begin_round()
        return self._deciding.decide(now, ownership, avoided)

    def new_claim(self, claim_id: str, pod: PodFact, placement: Placement, decision: Decision, now: Now) -> Claim:
        """Return the claim of a pod that was placed; from now on nothing is reported of the pod.

        If inter-pod constraints concern the pod it has all labels: other replicas may read the claim before the pod.
        """
        self._reporter.drop(pod.uid)
        record, queue = self.cluster.pods[pod.uid], self.cluster.queue_of(pod)
        choice = explaining.choice(self.cluster.allocator, pod, placement, decision, queue)
        pod = record.fact
        concerned = pod.ask.topology is not None or pod.ask.imposed
        return Claim(
            id=claim_id,
            uid=pod.uid,
            namespace=pod.namespace,
            name=pod.name,
            group=pod.group,
            queue=queue,
            decided_by=self.name,
            decided_at=now.wall,
            seen_at=record.seen_at,
            grants=placement.grants,
            resources=placement.resources,
            ports=placement.ports,
            counted=placement.counted,
            labels=pod.labels if concerned else tuple(sorted({label for rule in pod.ask.exclusive for label in rule})),
            volumes=pod.volume_uses if pod.ask.volumes else (),
            bindings=placement.bindings,
            devices=self.cluster.allocator.devices.decided(pod.tenant.devices, placement.devices),
            choice=choice,
        )

    def leave(self, group: GroupRecord, ownership: Ownership) -> None:
        """Report nothing more of a group that another scheduler decides."""
        self._deciding.leave(group, ownership)

    def take_overcommitted(self) -> Iterator[tuple[str, Claim]]:
        """Yield node and claim where a claim must be withdrawn, of the nodes that were changed since the last call."""
        crowded, self.cluster.crowded = self.cluster.crowded, set()
        for node in sorted(crowded):
            for claim in overcommitted_claims(self.cluster, node):
                yield node, claim

    def preempt(
        self, key: GroupKey, now: Now, *, explain: bool = True, actions: Sequence[str] | None = None
    ) -> Preemption:
        """Return which pods have to go so that a waiting group fits, and where its pods go then; nothing is changed.

        ``explain``: whether to say why no pod goes (:func:`deviceshare.preemption.preempt`); ``actions``: by which pods
        go, in turn, None: :attr:`preemption_actions`.
        """
        return self._preempting.preempt(key, now, explain=explain, actions=actions)

    @property
    def node_names(self) -> Collection[str]:
        """The names of the nodes of which a fact is known."""
        return self.cluster.allocator.node_names

    @property
    def preemption_actions(self) -> list[str]:
        """The configured actions by which pods go for others, in turn."""
        return self._preempting.actions

    def next_preemption(self, now: Now, ownership: Ownership = EVERYTHING) -> Preemption | None:
        """Return by which pods a group gets room that fits nowhere, of the groups that are owned; None for no group.

        To be called after :meth:`round`. Nothing is charged: the claims of the group, which wait for these pods, do it.
        Why no pods go for other groups is reported.
        """
        found = self._preemption_round.decide(now, ownership)
        self._deciding.report_again(self._preemption_round.explained, now)
        return found

    @property
    def preemption_attempts(self) -> int:
        """How many groups :meth:`next_preemption` has looked at."""
        return self._preemption_round.attempts

    def spare(self, uid: str, until: float, why: str) -> None:
        """Neither let a pod go for others nor count on its end until a monotonic time; ``why``: said of its node."""
        self._preempting.spare(uid, until, why)

    def blocked(self, uid: str, claim: str, now: float) -> float:
        """Note that a pod for which a claim of this one waits does not go: the next search waits, longer each time.

        Returns until when the pod that does not go is to be spared, monotonic.
        """
        record = self.cluster.pods.get(uid)
        return self._preemption_round.blocked(None if record is None else record.fact.group, claim, now)

    def pause_preemption(self, why: str, now: float) -> None:
        """Let no pods go for any group for a minute: the cluster does not permit to evict one, as ``why`` says."""
        self._preemption_round.pause(why, now)

    def protecting_budget(self, uid: str, now: Now) -> str:
        """Return the PodDisruptionBudget that does not allow a pod to be evicted now, in words, '' for none."""
        return self._preempting.protecting_budget(uid, now.monotonic)

    def nominated(self, uid: str, message: str, now: Now) -> Explanation:
        """Return the explanation of a nominated pod, which is to be published."""
        record = self.cluster.pods[uid]
        record.report(message, now.monotonic)
        record.explained = True
        return explaining.pending(record.fact, message, now.wall, self.name)

    # Trials

    def trial(self) -> SchedulerTrial:
        """Return a trial: ``with scheduler.trial() as trial: trial.remove(…); trial.place(…); trial.commit()``.

        What is not committed is undone. No facts and claims may be applied meanwhile.
        """
        return SchedulerTrial(self.cluster)

    def plan_moves(self, budget: int, movable: Iterable[Movable]) -> MovePlan:
        """Return a plan of at most ``budget`` moves (:func:`deviceshare.allocation.plan`), and what it changes."""
        allocator = self.cluster.allocator
        with self.cluster.dispatcher.reservations.enforced():
            moves = plan(allocator, (), budget, movable)
        return MovePlan(moves, *measure(allocator, moves))

    def movable_class(self, pod: PodFact) -> PodClass:
        """Return the class of a placed pod as it is when it is created again; it is valid while it is referenced."""
        _, pod_class = self.cluster.classify(replace(pod, node=""))
        return pod_class

    # Reasons

    def explain(self, uid: str, now: Now) -> Explanation:
        """Return why a waiting pod would wait if its group were decided now, with all nodes, or where it would go.

        A pause after a refusal does not matter.

        Raises:
            ValueError: the pod does not wait.
        """
        record = self.cluster.pods[uid]
        pod = record.fact
        if not record.waits:
            raise ValueError(f"Pod {pod.ref} does not wait")
        with self.trial() as trial:
            tried = trial.place_group(pod.group, now.monotonic)
        for member, obstacle in tried.obstacles:
            if member.uid == uid:
                return explaining.held_up(pod, obstacle, now.wall, self.name)
        for placed, placement in tried.placed:
            if placed.uid == uid:
                return explaining.pending(pod, f"fits on node {placement.node} now", now.wall, self.name)
        assert tried.refused is not None
        why = next((reason for waiting, reason in tried.refused.waiting if waiting.uid == uid), None)
        return explaining.waiting(pod, why, tried.refused, now.wall, self.name)

    def why_not(self, request: PodRequest) -> Unplaceable:
        """Return why no node is feasible for a request."""
        return self.cluster.allocator.why_not(request)

    def reports(self, now: float) -> list[Explanation]:
        """Return the explanations of waiting pods that are to be published now."""
        return self._reporter.take(self.cluster.pods, now)

    # Times

    @property
    def open_work(self) -> int:
        """How much could be decided or reported now."""
        return (
            len(self.cluster.candidates)
            + len(self.cluster.relabelled)
            + len(self.cluster.dispatcher)
            # A pod that is refused again and again has its reason: a settled system does not wait for it.
            + sum(1 for uid in self._deciding.retries if self.cluster.pods[uid].refusals <= PROMPT_RETRIES)
            + len(self._reporter)
        )

    def rounds_due(self, now: Now) -> Iterator[float]:
        """Yield the monotonic times at which a round has something to do without further events."""
        return chain(self._deciding.due(now), self._preemption_round.due())

    def reports_due(self) -> list[float]:
        """Return the monotonic times at which explanations are to be published."""
        return self._reporter.due(self.cluster.pods)

    def next_due(self, now: Now) -> float | None:
        """Return the monotonic time at which a round or a report is due without further events, None for never."""
        return min(chain(self.rounds_due(now), self.reports_due()), default=None)
