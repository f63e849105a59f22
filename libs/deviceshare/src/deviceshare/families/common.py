"""Functions that several families use: picking columns by a key, charging a view, counting failed checks."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from deviceshare.conf import SchedulerConf
from deviceshare.families.protocol import CardDemand, Check, ContainerShare, Demand, FirstFailing, Pick, Picks, Places
from deviceshare.kernels import CardCharges, CardSelector
from deviceshare.model import INIT, SIDECAR, WHOLE, Card, ContainerGrant, ContainerRequest, DeviceGrant, PodRequest
from deviceshare.state import Bools, CardKinds, CardView, Ints, Usage

Floats = NDArray[np.float64]
_NEVER = np.int64(2**62)


def memory_asked(cards: CardDemand, view: CardView) -> Ints:
    """Return int64[R, D]: the MiB that the demand would take of each card."""
    return memory_of_kinds(cards, view.kinds)[view.kind]


def memory_of_kinds(cards: CardDemand, kinds: CardKinds) -> Ints:
    """Return int64[kinds]: the MiB that the demand would take of a card of each kind."""
    asked: Ints = kinds.memory
    if cards.memory_percentage:
        asked = kinds.memory * cards.memory_percentage // 100
    elif cards.memory:
        asked = np.full(len(kinds), cards.memory, dtype=np.int64)
    return asked


def memory_on(cards: CardDemand, card: Card) -> int:
    """Return the MiB that the demand would take of a card."""
    if cards.memory_percentage:
        return card.memory * cards.memory_percentage // 100
    return cards.memory or card.memory


def largest_free(card: Card, used: Usage) -> int:
    """Return what is free of a card: MiB, or cores if it has no memory; 0 if no slots or no cores are left."""
    if used.slots >= card.slots > 0 or used.cores >= card.cores > 0:
        return 0
    return max(0, card.memory - used.memory if card.memory else card.cores - used.cores)


def at_most(device: DeviceGrant, asked: CardDemand, card: Card | None) -> DeviceGrant:
    """Return a device with no more memory and cores than the demand would take of a card."""
    memory = device.memory
    if card is not None:
        limit = memory_on(asked, card)
    else:
        limit = memory if asked.memory_percentage or not asked.memory else asked.memory
    if memory > limit or (memory == WHOLE and asked.memory and limit != WHOLE):
        memory = limit
    cores = min(device.cores, asked.cores)
    if (memory, cores) == (device.memory, device.cores):
        return device  # as of most pods
    return replace(device, memory=memory, cores=cores)


def essence(demand: Demand, **changes: int) -> Demand:
    """Return a demand for the cards of one container without the fields that do not affect which cards are picked.

    ``changes`` are fields of :class:`~deviceshare.families.CardDemand`, set to the same value for equivalent demands.
    """
    (cards,) = demand.cards
    return replace(demand, cards=(replace(cards, container="", position=0, **changes),), shares=())


def is_restricted(demand: Demand) -> bool:
    """Return whether a pod restricts cards by ids or by other pods, which kernels do not evaluate."""
    by_id = demand.use_ids or demand.use_indexes or demand.nouse_ids
    return bool(by_id or demand.apart_group or demand.apart_rules)


class Steps(NamedTuple):
    """How a family places a demand container by container; each sees what the ones before it took.

    ``turns`` yields the containers: :func:`in_turn`, unless the family implements the rule for init containers itself.
    """

    turns: Iterable[CardDemand]
    pick: Callable[[CardDemand], Picks]
    charge: Callable[[CardDemand, Picks], None]
    checks: Callable[[CardDemand], list[Check]]
    cards: Callable[[CardDemand], Bools]
    """bool[R, D]: the cards of the family, from which the checks exclude cards one check after the other."""


def place_one_by_one(view: CardView, steps: Steps) -> Places:
    """Place a demand container by container."""
    rows = view.mode.shape[0]
    places = Places(np.ones(rows, dtype=np.bool_), [], [], np.zeros(rows), np.zeros(rows))
    for cards in steps.turns:
        picks = steps.pick(cards)
        places.fits &= picks.fits
        places.columns.append(picks.columns)
        places.details.append(np.zeros_like(picks.columns) if picks.details is None else picks.details)
        if cards.stage != INIT:
            for term in np.atleast_2d(picks.score.T):
                places.score += term
        if picks.waste is not None:
            places.waste += picks.waste
        steps.charge(cards, picks)
    places.score[~places.fits] = 0.0
    return places


def check_one_by_one(steps: Steps) -> list[Check]:
    """Return the checks that each container fails, for the nodes that are infeasible for it.

    The first failing check of a node is that of the first container that it is infeasible for.
    """
    found = []
    feasible: Bools | None = None
    for cards in steps.turns:
        picks = steps.pick(cards)
        checks = [replace(check, nodes=check.nodes & ~picks.fits) for check in steps.checks(cards)]
        failing = [check for check in checks if check.nodes.any()]
        undecided = ~picks.fits if feasible is None else feasible & ~picks.fits
        found += first_failing(failing, steps.cards(cards), cards.count, undecided)
        feasible = picks.fits if feasible is None else feasible & picks.fits
        steps.charge(cards, picks)
    return found


def first_failing(checks: Sequence[Check], on_node: Bools, count: int, undecided: Bools) -> list[Check]:
    """Return the checks of one container with the nodes whose first failing check each is.

    A node with fewer cards than the container needs fails a check about cards only if it leaves none: the reason is the
    number of its cards.

    Args:
        checks: the failed checks, in their order.
        on_node: bool[R, D], the cards of the family.
        count: the number of cards that the container needs.
        undecided: bool[R], the nodes that are infeasible for the container, and for none before it.
    """
    if not checks:
        return []
    total = np.count_nonzero(on_node, axis=1)
    least = np.where(total < count, 1, count)
    passing, considered = on_node, total
    undecided = undecided.copy()
    found = []
    for check in checks:
        first, left, free = undecided & check.nodes, considered, check.free
        free_cards: Ints | None = None
        if check.cards is not None:
            failed = passing & check.cards
            remaining = passing & ~failed
            left = np.count_nonzero(remaining, axis=1)
            first &= left < least
            if check.free_cards is not None:
                free = most_free(check.free_cards, passing, failed, count)
                free_cards = np.where(passing, np.maximum(check.free_cards, 0), 0)
            passing = remaining
        needed = count if check.cards is not None and (check.free_cards is not None or not check.asked) else 0
        of_nodes = FirstFailing(first, left, considered, total, free, free_cards)
        found.append(replace(check, needed=needed, first=of_nodes))
        undecided &= ~first
        considered = left
    # A check of the number of cards does not exclude single ones.
    for at, check in reversed(list(enumerate(found))):
        assert check.first is not None
        found[at] = replace(check, first=replace(check.first, nodes=check.first.nodes | (undecided & check.nodes)))
        undecided &= ~check.nodes
    return found


def grants_of(
    family: str,
    demand: Demand,
    chosen: Sequence[Sequence[Pick]],
    device: Callable[[CardDemand, Pick], DeviceGrant],
) -> tuple[ContainerGrant, ...]:
    """Return one grant for each container, its devices in the order of the picks."""
    grants: list[ContainerGrant] = []
    # Generators would cost a fifth of a placement.
    for cards, picks in zip(demand.cards, chosen, strict=True):
        devices = tuple([device(cards, pick) for pick in picks])
        grants.append(ContainerGrant(cards.container, cards.position, family, devices, cards.stage))
    return tuple(grants)


Container = tuple[str, int, ContainerRequest]
"""A container of a pod: stage and position as in :class:`~deviceshare.model.ContainerGrant`, and its request."""


def start_order(ask: PodRequest) -> list[Container]:
    """Return the containers of a pod in the order in which they start."""
    inits = ((SIDECAR if each.sidecar else INIT, position, each) for position, each in enumerate(ask.init_containers))
    return [*inits, *(("", position, each) for position, each in enumerate(ask.containers))]


def by_stage(ask: PodRequest, stages: Sequence[str] = ("", SIDECAR, INIT)) -> list[Container]:
    """Return the containers of a pod in the order of their stages."""
    return sorted(start_order(ask), key=lambda each: stages.index(each[0]))


def shares_of(containers: Iterable[Container], resource: str) -> tuple[ContainerShare, ...]:
    """Return each container's part of a resource that the pod requests as a whole."""
    return tuple(
        ContainerShare(container.name, position, amount, stage)
        for stage, position, container in containers
        if (amount := container.get(resource))
    )


def in_turn(demand: Demand, view: CardView) -> Iterator[CardDemand]:
    """Yield the containers one after the other; the caller charges each in the view before it takes the next.

    An init container sees the view as it was before the pod, and prefers cards that the pod has already. In the end
    the view holds the maximum of each init container and the sum of the others.
    """
    mains = [cards for cards in demand.cards if cards.stage != INIT]
    inits = demand.cards[len(mains) :]
    before, shared_before = (view.block.copy(), view.slots_used.copy()) if inits else (view.block, view.slots_used)
    yield from mains
    if not inits:
        return
    peak = view.block.copy()
    view.preferred = view.slots_used > shared_before
    for cards in inits:
        view.block[:] = before
        yield cards
        np.maximum(peak, view.block, out=peak)
    view.block[:] = peak
    view.preferred = None


def picks_of(selector: CardSelector, view: CardView, allowed: Bools | None) -> Picks:
    """Return the picks of a kernel on every row of a view; ``allowed`` bool[R, D]: the cards that the pod accepts."""
    if allowed is not None:
        selector.restricted, selector.allowed = True, allowed.view(np.uint8)
    if view.preferred is not None:
        selector.preferring, selector.preferred = True, view.preferred.view(np.uint8)
    selector.cards = CardCharges(view.block)
    rows = len(view.block)
    fits, waste = np.zeros(rows, dtype=np.uint8), np.zeros(rows)
    columns, details = (np.zeros((rows, selector.count), dtype=np.int64) for _ in range(2))
    terms = np.zeros((rows, len(selector.terms)))
    selector.pick_rows(fits, columns, details, terms, waste)
    return Picks(fits.view(np.bool_), columns, terms, details, waste)


def choose(usable: Bools, key: Ints, count: int) -> tuple[Bools, Ints]:
    """Pick per row the ``count`` usable columns with the smallest keys (ties: lowest column).

    ``key`` is int64[R, D] or int64[1, D]. Returns bool[R]: whether there are enough, and int64[R, count]: the columns
    in the order of their keys.
    """
    rows, columns = usable.shape
    if count > columns:
        return np.zeros(rows, dtype=np.bool_), np.zeros((rows, count), dtype=np.int64)
    fits = np.count_nonzero(usable, axis=1) >= count
    ranked = np.where(usable, key, _NEVER)
    if count == 1:
        return fits, ranked.argmin(axis=1)[:, None]
    return fits, ranked.argsort(axis=1, kind="stable")[:, :count]


def set_policies(
    selector: CardSelector, conf: SchedulerConf, cards: CardDemand, kinds: CardKinds, usable: Bools
) -> None:
    """Make a kernel choose cards and score nodes by the policies; ``usable`` bool[kinds]: cards of the demand."""
    node, card = conf.scoring, conf.ordering
    selector.fullness, selector.emptiness = node.fullness, node.emptiness
    selector.by_memory, selector.by_shares, selector.by_column = card.by_memory, card.by_shares, card.by_column
    selector.whole_node, selector.capacity = node is not card, np.where(usable, kinds.memory, 0)
    selector.scoring_fragmentation, selector.least_fragmented_first = node.fragmentation, card.fragmentation
    selector.taken, selector.taken_cores = memory_of_kinds(cards, kinds).copy(), cards.cores


def charge(cards: CardDemand, view: CardView, picks: Picks) -> None:
    """Charge memory, cores and a slot of each picked card in the view, on the feasible rows."""
    if cards.count > view.mode.shape[1]:
        return
    rows = np.flatnonzero(picks.fits)[:, None]
    columns = picks.columns[picks.fits]
    asked = memory_asked(cards, view)[rows, columns]
    view.memory_used[rows, columns] += asked
    view.cores_used[rows, columns] += cards.cores
    view.slots_used[rows, columns] += 1


def any_card(cards: Bools) -> Bools:
    """Return bool[R]: the rows with any of these cards."""
    found: Bools = np.count_nonzero(cards, axis=1) > 0
    return found


def most_free(free: Ints, candidates: Bools, failed: Bools, count: int) -> Ints:
    """Return int64[R]: the amount with which the row would have ``count`` cards that pass a check about an amount.

    ``free`` int64[R, D] is what each card has left. Candidates that do not fail the check pass already. Where too few
    cards fail it, the amount is that of the failed card with the smallest amount; 0 where none fails.
    """
    rows, columns = free.shape
    if not columns:
        return np.zeros(rows, dtype=np.int64)
    missing = np.maximum(count - np.count_nonzero(candidates & ~failed, axis=1), 1)
    ranked = np.sort(np.where(failed, np.maximum(free, 0), -1), axis=1)
    take = columns - np.clip(np.count_nonzero(failed, axis=1), 1, missing)
    found: Ints = np.maximum(ranked[np.arange(rows), take], 0)
    return found


class Amount(NamedTuple):
    """The amount that a check is about: see :class:`Check`."""

    resource: str = ""
    asked: int = 0
    free: Ints | None = None
    unit: str = ""
    free_cards: Ints | None = None

    def on_cards(self, free: Ints, usable: Bools, failed: Bools, count: int) -> "Amount":
        """Return it as an amount of each of ``count`` cards; ``free`` int64[R, D] is what each card has left."""
        return self._replace(free=most_free(free, usable, failed, count), free_cards=free)


_NO_AMOUNT = Amount()


def card_check(code: str, text: str, failed: Bools, amount: Amount = _NO_AMOUNT) -> Check:
    """Return a check that is a reason for each node with a card that fails it; ``failed`` is bool[R, D]."""
    counts = np.count_nonzero(failed, axis=1).astype(np.int64)
    return Check(
        code, text, counts > 0, counts, amount.resource, amount.asked, amount.free, amount.unit, failed,
        amount.free_cards,
    )  # fmt: skip


def health_checks(cards: Bools, view: CardView, noun: str = "cards") -> list[Check]:
    """Return the checks for unhealthy and for cordoned ones of these cards (bool[R, D])."""
    unhealthy = card_check("CardNotHealth", f"node(s) had unhealthy {noun}", cards & ~view.healthy)
    cordoned = cards & view.healthy & ~view.usable
    return [unhealthy, card_check("CardCordoned", f"node(s) had cordoned {noun}", cordoned)]


def node_check(code: str, text: str, nodes: Bools, amount: Amount = _NO_AMOUNT) -> Check:
    """Return a check that is a reason for these nodes (bool[R]) and is not about single cards."""
    resource, asked, free, unit, _ = amount
    return Check(code, text, nodes, np.zeros(len(nodes), dtype=np.int64), resource, asked, free, unit)
