"""Joins the messages of all streams: where each pod is, why it waits, and what is allocated of nodes and cards."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import chain, groupby
from typing import NamedTuple

from deviceshare.model import DEVICE_PROBLEMS, PENDING, ContainerGrant, OtherPodFact, Problem, Resources, VolumeBinding
from deviceshare.state import PODS
from deviceshare_bus.messages.subjects import explain, fact, ledger, outcome

from deviceshare_metrics import api
from deviceshare_metrics.core.claimed_devices import devices_of_claims, driver_devices
from deviceshare_metrics.core.facts import PodSeen, decoded_request
from deviceshare_metrics.core.fragmented_pods import FragmentedPods
from deviceshare_metrics.core.held_cards import HeldCards
from deviceshare_metrics.core.state_store import StateStore
from deviceshare_metrics.core.states import OTHER, Outcomes, Placed, best_claims, claim_state, outcomes_of, pod_state
from deviceshare_metrics.core.usage import Cards, CardUsage, Holding, Share, holdings, overcommitted, overcommitted_text
from deviceshare_metrics.core.whole_cards import whole_cards, whole_count


class Snapshot(NamedTuple):
    """Everything that is shown. Immutable: it can be read in another thread.

    ``shares`` and ``pod_shares`` are of registered cards only, ``queues`` are the names of the cluster's queues.
    ``unschedulable`` is the number of pending pods by the codes of the reasons why they wait: a pod
    counts for each of its reasons. ``oldest_pending`` is by queue the creation of the oldest pending pod, in unix
    seconds. ``unconfirmed`` is the number of claims with the outcome bound whose pod is not bound in the cluster.
    ``binding_volumes`` is the number of claimed pods whose PersistentVolumeClaims are bound before them.
    """

    nodes: tuple[api.Node, ...]
    devices: tuple[api.Device, ...]
    """All cards, by node; those of a plain number as well."""
    pods: tuple[api.Pod, ...]
    claims: tuple[api.Claim, ...]
    shares: tuple[Share, ...]
    pod_shares: tuple[Share, ...]
    queues: tuple[str, ...]
    device_problems: dict[str, int]
    """How many problems the devices of bound pods have, by kind (:data:`deviceshare.model.DEVICE_PROBLEMS`)."""
    unschedulable: Mapping[str, int]
    oldest_pending: Mapping[str, float]
    unconfirmed: int
    binding_volumes: int
    going: int
    """How many pods have to go for others."""
    drivers: tuple[api.DriverDevices, ...]
    device_classes: tuple[str, ...]
    resource_claims: Mapping[str, int]
    """How many there are in each state."""

    @property
    def registered(self) -> list[api.Device]:
        """The cards that a device plugin registers one by one."""
        return [device for device in self.devices if device.mode != api.WHOLE]


def build_snapshot(store: StateStore, fragmented: FragmentedPods | None = None) -> Snapshot:
    """Return the snapshot of a store; ``fragmented``: of the whole cluster if the store is a part of it."""
    cards = Cards(store)
    outcomes = outcomes_of(store)
    held = list(holdings(store))
    usage = cards.usage(held)
    devices = _Devices(cards)
    registered = tuple(cards_of(store, cards, usage))
    best = best_claims(store, outcomes)
    nodes = tuple(nodes_of(store, held, cards, usage, registered))
    every_card = tuple(_all_cards(store, nodes, registered))
    on_nodes = HeldCards(held, usage, every_card)
    fragmented = fragmented or FragmentedPods(store, cards)
    found = (*_pods(store, devices, best, registered, on_nodes, fragmented), *map(_other, store.others.values()))
    pods = tuple(sorted(found, key=lambda pod: (pod.namespace, pod.name, pod.uid)))
    return Snapshot(
        nodes=nodes,
        devices=every_card,
        pods=pods,
        claims=tuple(_claims(store, devices, outcomes)),
        shares=usage.shares,
        pod_shares=usage.pods,
        queues=tuple(sorted({queue.name for queue in store.queues.values()})),
        device_problems=Counter(problem.field for pod in store.pods.values() for problem in pod.problems),
        unschedulable=_unschedulable(store, pods),
        oldest_pending=_oldest_pending(store, pods),
        unconfirmed=_unconfirmed(store, outcomes),
        binding_volumes=_binding_volumes(store, best),
        going=sum(store.going.values()),
        drivers=tuple(driver_devices(store)),
        device_classes=tuple(sorted(each.name for each in store.device_classes.values())),
        resource_claims=Counter(claim.state for claim in store.device_claims.values()),
    )


def nodes_of(
    store: StateStore, holdings: Iterable[Holding], cards: Cards, usage: CardUsage, devices: Iterable[api.Device]
) -> Iterator[api.Node]:
    """Yield the nodes, with the resources of these holdings, the usage of their cards, and these registered devices."""
    used: dict[str, Counter[str]] = defaultdict(Counter)
    uids: dict[str, set[str]] = defaultdict(set)
    for held in holdings:
        uids[held.node].add(held.uid)
        for name, amount in held.resources:
            used[held.node][name] += amount
    of_pods = _device_problems(store)
    of_cards: defaultdict[str, list[str]] = defaultdict(list)
    for device in devices:
        if overcommitted(device):
            of_cards[device.node].append(overcommitted_text(device))
    for node in sorted(store.nodes.values(), key=lambda node: node.name):
        of_node = {PODS: len(uids[node.name]), **cards.used_resources(node.name, usage)}
        here = used[node.name] + Counter({name: of_node[name] for name in of_node if name in node.allocatable})
        resources: Resources = dict(sorted(here.items()))
        yield api.Node(
            name=node.name,
            ready=node.ready,
            unschedulable=node.unschedulable,
            allocatable=node.allocatable,
            used=resources,
            pods=len(uids[node.name]),
            cards=len(node.cards) or whole_count(node),
            problems=(
                *_texts(node.problems),
                *of_pods.get(node.name, ()),
                *of_cards.get(node.name, ()),
                *_invalid(store, fact("node", node.name), ledger(node.name), outcome(node.name)),
            ),
        )


def cards_of(store: StateStore, cards: Cards, usage: CardUsage) -> Iterator[api.Device]:
    """Yield the cards of all nodes, with their usage."""
    pods: dict[tuple[str, str], set[str]] = defaultdict(set)
    owners: dict[tuple[str, str], set[str]] = defaultdict(set)
    for share in usage.pods:
        card_of = share.node, share.card
        pods[card_of].add(f"{share.namespace}/{share.pod}")
        seen = store.pods.get(fact("pod", share.uid))
        owners[card_of].add(api.holder(share.namespace, share.pod, seen.owner if seen is not None else ""))
    for node in sorted(store.nodes.values(), key=lambda node: node.name):
        cordons = {each.id: api.Cordon(by=each.by, reason=each.reason, since=each.since) for each in node.cordons}
        for card in cards.of(node.name):
            used, free = usage.by_card.get((node.name, card.id)) or cards.unused(card)
            yield api.Device(
                node=node.name,
                id=card.id,
                index=card.index,
                type=card.type,
                mode=card.mode,
                healthy=card.healthy,
                memory_total=cards.mebibytes(card, card.memory),
                memory_used=used.memory,
                cores_total=card.cores if cards.counts_cores(card) else 0,
                cores_used=used.cores,
                slots_total=card.slots,
                slots_used=used.slots,
                largest_free=free if card.healthy and not card.cordoned else 0,
                cordon=cordons.get(card.id),
                pods=tuple(sorted(pods.get((node.name, card.id), ()))),
                owners=tuple(sorted(owners.get((node.name, card.id), ()))),
            )


def _all_cards(store: StateStore, nodes: Iterable[api.Node], registered: Iterable[api.Device]) -> Iterator[api.Device]:
    """Yield the cards of all nodes by node: the registered ones, or those of a plain number."""
    of_node = {name: list(devices) for name, devices in groupby(registered, lambda device: device.node)}
    facts = {node.name: node for node in store.nodes.values()}
    for node in nodes:
        yield from of_node.get(node.name) or whole_cards(facts[node.name], node)


class _Devices:
    """The devices of grants by the names of their device plugins; those of a claim are those of its pod."""

    def __init__(self, cards: Cards) -> None:
        self._cards = cards
        self._known: dict[tuple[str, int], tuple[api.PodDevice, ...]] = {}
        """By node and the identity of the grants, which exist as long as the store."""

    def of(self, node: str, grants: tuple[ContainerGrant, ...]) -> tuple[api.PodDevice, ...]:
        """Return the devices of grants of the store."""
        if not grants:
            return ()
        key = (node, id(grants))
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = _devices_of(self._cards, node, grants)
        return found


def _devices_of(cards: Cards, node: str, grants: Iterable[ContainerGrant]) -> tuple[api.PodDevice, ...]:
    return tuple(
        api.PodDevice(
            container=grant.container,
            id=device.id if card is None else cards.device_id(card, device),
            memory=max(device.memory, 0) if card is None else cards.memory(card, grant, device),
            cores=device.cores,
        )
        for grant in grants
        for device in grant.devices
        for card in (cards.find(node, device),)
    )


def _claims(store: StateStore, devices: _Devices, outcomes: Outcomes) -> Iterator[api.Claim]:
    for on_node in sorted(store.ledgers.values(), key=lambda ledger: ledger.node):
        for claim in on_node.claims:
            found = outcomes.get((claim.id, claim.uid))
            yield api.Claim(
                id=claim.id,
                uid=claim.uid,
                namespace=claim.namespace,
                name=claim.name,
                node=on_node.node,
                state=claim_state(claim, found),
                reason=found.reason if found is not None else "",
                devices=(
                    *devices.of(on_node.node, claim.grants),
                    *api.whole_cards(claim.resources, claim.grants),
                    *api.decided_devices(claim.devices),
                ),
                decided_by=claim.decided_by,
                decided_at=claim.decided_at,
            )


def _pods(
    store: StateStore,
    known: _Devices,
    best: Mapping[str, Placed],
    cards: Iterable[api.Device],
    on_nodes: HeldCards,
    fragmented: FragmentedPods,
) -> Iterator[api.Pod]:
    of_cards: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for card in cards:
        for ref in card.pods if overcommitted(card) else ():
            of_cards[card.node, ref].append(overcommitted_text(card))
    on_node = {(each.node, claim.uid): claim.grants for each in store.ledgers.values() for claim in each.claims}
    queues = {group.key: group.queue for group in store.groups.values()}
    nominated = dict(chain.from_iterable(store.nominations.values()))
    for pod in store.pods.values():
        placed = best.get(pod.uid)
        state = pod_state(pod, placed)
        node = ""
        grants: tuple[ContainerGrant, ...] = ()
        if pod.node:
            node = pod.node
            grants = on_node.get((node, pod.uid), () if pod.ended else pod.held)
        elif placed is not None and placed.holds and not pod.ended:
            node, grants = placed.node, placed.claim.grants
        holds = not pod.ended
        devices = known.of(node, grants) + (on_nodes.numbers(node, pod.uid) if holds else ())
        if node and holds and pod.device_claims:
            devices += devices_of_claims(store, pod, placed.claim.devices if placed is not None else ())
        reason, reason_at = _reason(store, pod, state, placed)
        history = store.histories.get(pod.uid) if state == "Pending" else None
        yield api.Pod(
            namespace=pod.namespace,
            name=pod.name,
            uid=pod.uid,
            scheduler=pod.scheduler,
            node=node or None,
            nominated_node=nominated.get(pod.uid, "") if state == "Pending" else "",
            state=state,
            refused=state == "Pending" and is_refused(store, pod),
            fragmented="" if history is None or pod.terminating else fragmented.model(history.explanation),
            terminating=pod.terminating,
            created=pod.created,
            waiting_since=pod.created if state in api.WAITING and not pod.terminating else None,
            priority=pod.priority,
            owner=pod.owner,
            request=_request(bytes(pod.ask)),
            devices=devices,
            resource_claims=tuple(each.claim.partition("/")[2] for each in pod.device_claims if each.claim),
            cards=on_nodes.cards(node, pod.uid) if holds else (),
            reason=reason,
            reason_at=reason_at,
            queue=queues.get(pod.group, "") or pod.queue or "default",
            group=pod.group,
            problems=(
                *_texts(pod.problems),
                *of_cards.get((node, f"{pod.namespace}/{pod.name}"), ()),
                *_invalid(store, fact("pod", pod.uid), explain(pod.uid)),
            ),
        )


@lru_cache(maxsize=4096)
def _request(ask: bytes) -> tuple[api.ContainerResources, ...]:
    """Return what the containers of a pod with this encoded request ask for; many pods have equal ones."""
    request = decoded_request(ask)
    containers = (*request.init_containers, *request.containers) if request is not None else ()
    return tuple(api.ContainerResources(container=each.name, resources=dict(each.resources)) for each in containers)


def _other(pod: OtherPodFact) -> api.Pod:
    return api.Pod(
        namespace=pod.namespace, name=pod.name, uid=pod.uid, scheduler=pod.scheduler, node=None, state=OTHER,
        created=pod.created, waiting_since=pod.created, devices=(), reason=pod.message, queue="", group="", problems=(),
    )  # fmt: skip


def _reason(store: StateStore, pod: PodSeen, state: api.PodState, placed: Placed | None) -> tuple[str | None, float]:
    """Return why a pod waits, and as of when this is true: 0 for what its fact shows."""
    if state == "Gated":
        return f"waits for scheduling gates: {', '.join(pod.gates)}", 0.0
    if state == "Claimed" and placed is not None and placed.claim.bindings:
        bindings = ", ".join(map(_binding_text, placed.claim.bindings))
        return f"its PersistentVolumeClaims are bound first: {bindings}", 0.0
    if state != "Pending":
        return None, 0.0
    history = store.histories.get(pod.uid)
    explanation = history.explanation if history is not None else None
    if explanation is not None and explanation.decision == PENDING and explanation.message:
        return explanation.message, explanation.at
    return str(pod.problems[0]) if pod.problems else None, 0.0


def is_refused(store: StateStore, pod: PodSeen) -> bool:
    """Return whether the request of a waiting pod is invalid: by its fact, or by the last decision about it."""
    history = store.histories.get(pod.uid)
    return bool(pod.problems) or (
        history is not None and history.explanation is not None and history.explanation.refused
    )


def _binding_text(binding: VolumeBinding) -> str:
    how = f"PersistentVolume {binding.volume}" if binding.volume else f"a volume that is made on node {binding.node}"
    return f"{binding.claim} to {how}"


def _device_problems(store: StateStore) -> dict[str, list[str]]:
    """Return the problems of the devices of bound pods, by node."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for pod in store.pods.values():
        for problem in pod.problems:
            if problem.field in DEVICE_PROBLEMS:
                found[pod.node].append(str(problem))
    return {node: sorted(texts) for node, texts in found.items()}


def _unschedulable(store: StateStore, pods: Iterable[api.Pod]) -> Counter[str]:
    found: Counter[str] = Counter()
    for pod in pods:
        history = store.histories.get(pod.uid) if pod.state == "Pending" else None
        if history is not None and (explanation := history.explanation) is not None:
            found.update({refusal.code for refusal in explanation.refusals})
    return found


def _oldest_pending(store: StateStore, pods: Iterable[api.Pod]) -> dict[str, float]:
    found: dict[str, float] = {}
    for pod in pods:
        if pod.state == "Pending" and (created := store.pods[fact("pod", pod.uid)].created):
            found[pod.queue] = min(created, found.get(pod.queue, created))
    return found


def _unconfirmed(store: StateStore, outcomes: Outcomes) -> int:
    return sum(
        (seen := store.pods.get(fact("pod", claim.uid))) is not None
        and not seen.node
        and claim_state(claim, outcomes.get((claim.id, claim.uid))) == "bound"
        for ledger in store.ledgers.values()
        for claim in ledger.claims
    )


def _binding_volumes(store: StateStore, best: Mapping[str, Placed]) -> int:
    return sum(
        (placed := best.get(pod.uid)) is not None
        and bool(placed.claim.bindings)
        and pod_state(pod, placed) == "Claimed"
        for pod in store.pods.values()
    )


def _texts(problems: Iterable[Problem]) -> tuple[str, ...]:
    return tuple(map(str, problems))


def _invalid(store: StateStore, *subjects: str) -> Iterator[str]:
    """Yield why the last messages of these subjects are not valid."""
    for subject in subjects if store.invalid else ():
        if (reason := store.invalid.get(subject)) is not None:
            yield f"the message {subject} on the bus is not valid: {reason}"
