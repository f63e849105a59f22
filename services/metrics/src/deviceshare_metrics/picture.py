"""What the streams mean together: what is taken of nodes and cards, and by whom.

A pure function of a :class:`~deviceshare_metrics.view.View`, made anew when somebody looks and something has changed.
Usage of a node is its claims and, by uid, the pods bound there that have none: the rule by which placement decides.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec
from deviceshare.claims import ContainerGrant, DeviceGrant, NodeLedger, Outcome
from deviceshare.conf.model import SchedulerConf
from deviceshare.errors import Problem
from deviceshare.explain import PENDING
from deviceshare.facts import Card, PodAsk, Resources
from deviceshare.families import FAMILIES
from deviceshare.formats import vgpu
from deviceshare.resources import pod_resources

from deviceshare_metrics import api
from deviceshare_metrics.states import best_claims, claim_state, outcomes_of, pod_state
from deviceshare_metrics.view import PodSeen, View

_DEVICE_RESOURCES = frozenset(name for family in FAMILIES for name in family.resources(SchedulerConf()))
"""Asked by pods, counted on cards: claims leave them out too."""
_decode_ask = msgspec.msgpack.Decoder(PodAsk).decode


class Share(msgspec.Struct, frozen=True, gc=False):
    """What one container has of one card: ``card`` is the card's id, ``memory`` MiB, ``cores`` percent or AI cores."""

    node: str
    card: str
    namespace: str
    pod: str
    container: str
    memory: int
    cores: int


class Gang(NamedTuple):
    """How far a gang is: ``placed`` are claimed, bound or ended."""

    key: str
    min_member: int
    placed: int
    pending: int


class Picture(NamedTuple):
    """Everything that is shown. All of it is immutable; it can be read in another thread."""

    nodes: tuple[api.Node, ...]
    devices: tuple[api.Device, ...]
    pods: tuple[api.Pod, ...]
    claims: tuple[api.Claim, ...]
    shares: tuple[Share, ...]
    """Of registered cards only."""
    gangs: tuple[Gang, ...]
    queues: tuple[str, ...]
    """Names of the cluster's queues."""


class _Holding(NamedTuple):
    """What one pod takes of one node."""

    node: str
    uid: str
    namespace: str
    name: str
    grants: tuple[ContainerGrant, ...]
    resources: Iterable[tuple[str, int]]


class _Cards:
    """The registered cards, to resolve what grants name."""

    def __init__(self, view: View) -> None:
        self.by_node: dict[str, dict[str, Card]] = {
            node.name: {card.id: card for card in node.cards} for node in view.nodes.values()
        }

    def find(self, node: str, device: DeviceGrant) -> Card | None:
        return self.by_node.get(node, {}).get(device.id)

    def devices(self, node: str, grants: Iterable[ContainerGrant]) -> tuple[api.PodDevice, ...]:
        """Return the devices as their plugins name them."""
        return tuple(
            api.PodDevice(
                container=grant.container,
                id=vgpu.device_id(device) if card is not None and card.mode == vgpu.MIG else device.id,
                memory=_memory(device, card),
                cores=device.cores,
            )
            for grant in grants
            for device in grant.devices
            for card in (self.find(node, device),)
        )


def draw(view: View) -> Picture:
    """Return the picture of all that has been read."""
    cards = _Cards(view)
    outcomes = outcomes_of(view)
    holdings = list(_holdings(view))
    shares = tuple(_shares(holdings, cards))
    pods = tuple(sorted(_pods(view, cards, outcomes), key=lambda pod: (pod.namespace, pod.name, pod.uid)))
    return Picture(
        nodes=tuple(_nodes(view, holdings)),
        devices=tuple(_devices(view, shares)),
        pods=pods,
        claims=tuple(_claims(view, cards, outcomes)),
        shares=shares,
        gangs=tuple(_gangs(view, pods)),
        queues=tuple(sorted({queue.name for queue in view.queues.values()})),
    )


def _bound_by_node(view: View) -> dict[str, list[PodSeen]]:
    found: dict[str, list[PodSeen]] = defaultdict(list)
    for pod in view.pods.values():
        if pod.node and not pod.ended:
            found[pod.node].append(pod)
    return found


def _holdings(view: View) -> Iterator[_Holding]:
    bound = _bound_by_node(view)
    for ledger in view.ledgers.values():
        for claim in ledger.claims:
            yield _Holding(ledger.node, claim.uid, claim.namespace, claim.name, claim.grants, claim.resources)
    claimed = _claimed_uids(view.ledgers.values())
    for node, pods in bound.items():
        known = claimed.get(node, frozenset())
        for pod in pods:
            if pod.uid not in known:
                yield _Holding(node, pod.uid, pod.namespace, pod.name, pod.held, _asked(pod))


def _claimed_uids(ledgers: Iterable[NodeLedger]) -> dict[str, frozenset[str]]:
    return {ledger.node: frozenset(claim.uid for claim in ledger.claims) for ledger in ledgers}


def _asked(pod: PodSeen) -> tuple[tuple[str, int], ...]:
    """Return what a pod without a claim takes of its node; nothing where its ask cannot be read."""
    try:
        return pod_resources(_decode_ask(pod.ask), _DEVICE_RESOURCES)
    except msgspec.MsgspecError:
        return ()


def _memory(device: DeviceGrant, card: Card | None) -> int:
    if device.memory >= 0:
        return device.memory
    return card.memory if card is not None else 0


def _shares(holdings: Iterable[_Holding], cards: _Cards) -> Iterator[Share]:
    for held in holdings:
        for grant in held.grants:
            for device in grant.devices:
                card = cards.find(held.node, device)
                if card is not None:
                    memory = _memory(device, card)
                    yield Share(held.node, card.id, held.namespace, held.name, grant.container, memory, device.cores)


def _nodes(view: View, holdings: Iterable[_Holding]) -> Iterator[api.Node]:
    used: dict[str, Counter[str]] = defaultdict(Counter)
    uids: dict[str, set[str]] = defaultdict(set)
    for held in holdings:
        uids[held.node].add(held.uid)
        for name, amount in held.resources:
            used[held.node][name] += amount
    for node in sorted(view.nodes.values(), key=lambda node: node.name):
        resources: Resources = dict(sorted(used[node.name].items()))
        yield api.Node(
            name=node.name,
            ready=node.ready,
            unschedulable=node.unschedulable,
            allocatable=node.allocatable,
            used=resources,
            pods=len(uids[node.name]),
            cards=len(node.cards),
            problems=_texts(node.problems),
        )


def _devices(view: View, shares: Iterable[Share]) -> Iterator[api.Device]:
    taken: dict[tuple[str, str], list[Share]] = defaultdict(list)
    for share in shares:
        taken[share.node, share.card].append(share)
    for node in sorted(view.nodes.values(), key=lambda node: node.name):
        for card in {card.id: card for card in node.cards}.values():
            here = taken.get((node.name, card.id), ())
            yield api.Device(
                node=node.name,
                id=card.id,
                index=card.index,
                type=card.type,
                mode=card.mode,
                healthy=card.healthy,
                memory_total=card.memory,
                memory_used=sum(share.memory for share in here),
                cores_total=card.cores,
                cores_used=sum(share.cores for share in here),
                slots_total=card.slots,
                slots_used=len(here),
                pods=tuple(sorted({f"{share.namespace}/{share.pod}" for share in here})),
            )


def _claims(view: View, cards: _Cards, outcomes: dict[str, Outcome]) -> Iterator[api.Claim]:
    for ledger in sorted(view.ledgers.values(), key=lambda ledger: ledger.node):
        for claim in ledger.claims:
            outcome = outcomes.get(claim.id)
            yield api.Claim(
                id=claim.id,
                uid=claim.uid,
                namespace=claim.namespace,
                name=claim.name,
                node=ledger.node,
                state=claim_state(claim, outcome),
                reason=outcome.reason if outcome is not None else "",
                devices=cards.devices(ledger.node, claim.grants),
                decided_by=claim.decided_by,
                decided_at=claim.decided_at,
            )


def _pods(view: View, cards: _Cards, outcomes: dict[str, Outcome]) -> Iterator[api.Pod]:
    best = best_claims(view, outcomes)
    on_node = {(ledger.node, claim.uid): claim.grants for ledger in view.ledgers.values() for claim in ledger.claims}
    queues = {group.key: group.queue for group in view.groups.values()}
    for pod in view.pods.values():
        placed = best.get(pod.uid)
        state = pod_state(pod, placed)
        node = ""
        grants: tuple[ContainerGrant, ...] = ()
        if pod.node:
            node = pod.node
            grants = on_node.get((node, pod.uid), () if pod.ended else pod.held)
        elif placed is not None and placed.holds and not pod.ended:
            node, grants = placed.node, placed.claim.grants
        yield api.Pod(
            namespace=pod.namespace,
            name=pod.name,
            uid=pod.uid,
            scheduler=pod.scheduler,
            node=node or None,
            state=state,
            devices=cards.devices(node, grants),
            reason=_reason(view, pod, state),
            queue=pod.queue or queues.get(pod.group, "") or "default",
            group=pod.group,
            problems=_texts(pod.problems),
        )


def _reason(view: View, pod: PodSeen, state: api.PodState) -> str | None:
    if state == "Gated":
        return f"waits for scheduling gates: {', '.join(pod.gates)}"
    if state != "Pending":
        return None
    explanation = view.explanations.get(pod.uid)
    if explanation is not None and explanation.decision == PENDING and explanation.message:
        return explanation.message
    return str(pod.problems[0]) if pod.problems else None


def _gangs(view: View, pods: Iterable[api.Pod]) -> Iterator[Gang]:
    placed: Counter[str] = Counter()
    pending: Counter[str] = Counter()
    for pod in pods:
        if pod.group:
            (pending if pod.state in ("Pending", "Gated") else placed)[pod.group] += 1
    for group in sorted(view.groups.values(), key=lambda group: group.key):
        yield Gang(group.key, group.min_member, placed[group.key], pending[group.key])


def _texts(problems: Iterable[Problem]) -> tuple[str, ...]:
    return tuple(map(str, problems))
