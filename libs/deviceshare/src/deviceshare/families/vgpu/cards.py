"""Which vGPU cards of any mode a pod may use: bool[R, D] arrays, and the checks that follow from them."""

from collections.abc import Callable, Iterable

import numpy as np

from deviceshare.conf import matching
from deviceshare.families import common, selection
from deviceshare.families.protocol import CardDemand, Check, Demand
from deviceshare.families.vgpu import request, wire
from deviceshare.families.vgpu.section import VgpuConf
from deviceshare.model import ContainerGrant, Tenant
from deviceshare.state import Bools, CardView, Ints


def candidates(demand: Demand, view: CardView, mode: str) -> Bools:
    """Return the cards that could be picked if they had room."""
    found = view.of_mode(mode) & view.usable
    for allowed in (selection.type_allowed(demand, view), allowed_by_name(demand, view)):
        if allowed is not None:
            found &= allowed
    return found


def allowed_by_name(demand: Demand, view: CardView) -> Bools | None:
    """Return bool[R, D]: the cards that a pod accepts by id and by the pods on them; None where it accepts all."""
    if not common.is_restricted(demand):
        return None
    allowed = selection.id_allowed(demand, view)
    found = np.ones(view.mode.shape, dtype=np.bool_) if allowed is None else allowed
    if demand.apart_group:
        found &= ~_with_mates(demand, view)
    if demand.apart_rules:
        found &= ~_with_excluded(demand, view)
    return found


def _with_mates(demand: Demand, view: CardView) -> Bools:
    """Return the cards with a pod of the same PodGroup (Volcano vgpu/utils.go deviceHasPodFromSameGroup)."""
    return _held_by(view, lambda tenant: tenant.group == demand.apart_group)


def _with_excluded(demand: Demand, view: CardView) -> Bools:
    """Return the cards with a pod of the same rule (Volcano plugins/deviceshare/gpuexclusive.go)."""
    return _held_by(view, lambda tenant: bool(matching(demand.apart_rules, tenant.labels)))


def _held_by(view: CardView, is_one: Callable[[Tenant], bool]) -> Bools:
    """Return the cards of which a matching tenant holds memory or cores."""
    found = np.zeros(view.mode.shape, dtype=np.bool_)
    for row, holdings in enumerate(view.holdings):
        held = {name for each in holdings if is_one(each.tenant) for grant in each.grants for name in _ids(grant)}
        for column, card in enumerate(view.cards[row]) if held else ():
            found[row, column] = card.id in held
    return found


def _ids(grant: ContainerGrant) -> list[str]:
    return [device.id for device in grant.devices if device.memory or device.cores]


def most_cores(cards: CardDemand) -> int:
    """Return how many cores of a card may be in use: a request for 0 cores needs at least one free core."""
    return request.ALL_CORES - max(cards.cores, 1)


def failures(cards: CardDemand, slots: Ints, slots_used: Ints, cores_used: Ints) -> dict[str, Bools]:
    """Return by code the cards without room for one more container, memory aside."""
    nothing = np.zeros(slots.shape, dtype=np.bool_)
    return {
        "CardTimeSlicingExhausted": slots_used >= slots,
        "CardInsufficientCore": cores_used + cards.cores > request.ALL_CORES,
        "ExclusiveDeviceAllocateConflict": slots_used > 0 if cards.cores == request.ALL_CORES else nothing,
        "CardComputeUnitsExhausted": nothing if cards.cores else cores_used >= request.ALL_CORES,
    }


def checks_of_cards(
    demand: Demand, view: CardView, mode: str, modes: Iterable[str] = wire.MODES, use_ids: str = wire.USE_ID
) -> list[Check]:
    """Return the checks of single cards that do not depend on usage.

    ``modes``: those of all cards that the device plugin registers; ``use_ids``: the annotation that selects ids.
    """
    registered, of_mode = view.of_modes(modes), view.of_mode(mode)
    checks = [common.node_check("CardNotFound", "node(s) had no vGPU cards", ~common.any_card(registered))]
    if demand.mode:
        text = f"node(s) had cards that are not in mode {demand.mode}"
        checks.append(common.card_check("ModeNotFit", text, registered & ~of_mode))
    checks += common.health_checks(of_mode, view)
    checks += selection.checks(demand, view, of_mode, use_ids)
    if demand.apart_group:
        text = f"node(s) had cards with a pod of the same PodGroup ({wire.PODGROUP_POLICY} {wire.SPREAD})"
        checks.append(common.card_check("CardPodGroupConflict", text, of_mode & _with_mates(demand, view)))
    if demand.apart_rules:
        text = "node(s) had cards with a pod of the same rule (deviceshare.GPUExclusiveRules)"
        checks.append(common.card_check("CardExclusiveRuleConflict", text, of_mode & _with_excluded(demand, view)))
    return checks


def check_of_number(cards: CardDemand, usable: Bools, names: VgpuConf) -> Check:
    """Return the check of the number of ``usable`` cards: those that pass all checks that do not depend on usage."""
    count, number = usable.sum(axis=1), names.number
    # On nodes without any usable card the checks of single cards are the reasons.
    few = (count > 0) & (count < cards.count)
    amount = common.Amount(number, cards.count, count)
    return common.node_check("NodeInsufficientDevice", f"Insufficient {number}", few, amount)


def checks_of_room(
    cards: CardDemand, cores_used: Ints, usable: Bools, failed: dict[str, Bools], names: VgpuConf
) -> list[Check]:
    """Return the checks for :func:`failures`, counted on ``usable`` cards."""
    failed = {code: each & usable for code, each in failed.items()}
    name, short = names.cores, failed["CardInsufficientCore"]
    free = request.ALL_CORES - cores_used
    cores = common.Amount(name, cards.cores, unit="percent").on_cards(free, usable, short, cards.count)
    return [
        common.card_check(
            "CardTimeSlicingExhausted",
            "node(s) had cards shared by as many containers as they may be",
            failed["CardTimeSlicingExhausted"],
        ),
        common.card_check("CardInsufficientCore", f"Insufficient {name} on a card", short, cores),
        common.card_check(
            "ExclusiveDeviceAllocateConflict",
            "node(s) had cards in use where all cores of a card are asked",
            failed["ExclusiveDeviceAllocateConflict"],
        ),
        common.card_check(
            "CardComputeUnitsExhausted",
            "node(s) had cards whose cores are all taken",
            failed["CardComputeUnitsExhausted"],
        ),
    ]


def memory_amount(
    cards: CardDemand, view: CardView, failed: Bools, usable: Bools, free: Ints, names: VgpuConf
) -> common.Amount:
    """Return what is requested of each card and the largest free amount; ``free`` is int64[R, D]."""
    resource, asked, unit = names.memory, cards.memory, request.unit(names)
    if cards.memory_percentage or not cards.memory:
        # Cards differ in size: only a percentage means the same on all of them.
        resource = names.percentage if cards.memory_percentage else names.memory
        asked, unit = cards.memory_percentage or 100, "percent"
        free = 100 * free // np.maximum(view.memory, 1)
    return common.Amount(resource, asked, unit=unit).on_cards(free, usable, failed, cards.count)
