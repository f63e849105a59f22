"""The checks that chips fail, with amounts."""

import numpy as np

from deviceshare.families import common
from deviceshare.families.hami_vnpu import wire
from deviceshare.families.hami_vnpu.demand import ALL_CORES, VnpuCardDemand
from deviceshare.families.hami_vnpu.placing import AI_CORES, AI_CPUS, ChipChooser
from deviceshare.families.protocol import CardDemand, Check
from deviceshare.families.selection import id_allowed
from deviceshare.state import Bools, Ints


def checks(chooser: ChipChooser, cards: CardDemand) -> list[Check]:
    """Return all checks that chips fail for one container; capacity is checked for chips that the pod may use."""
    assert isinstance(cards, VnpuCardDemand)
    demand, view = chooser.demand, chooser.view
    word, resource = demand.chip.word, demand.chip.resource
    offered = chooser.of_kind & chooser.offered[:, None]
    found = [
        common.node_check("CardNotFound", f"node(s) had no {word}", ~common.any_card(offered)),
        common.card_check(
            "ModeNotFit", f"node(s) had chips that {wire.HAMI_CORE} does not share", offered & ~chooser.of_mode
        ),
        *common.health_checks(offered & chooser.of_mode, view, "chips"),
    ]
    if (allowed := id_allowed(demand, view)) is not None:
        wishes = ", ".join(key.replace("*", word) for key in (wire.USE_ID, wire.NOUSE_ID))
        found.append(
            common.card_check(
                "CardUuidMismatch", f"node(s) had chips other than {wishes} allow", offered & chooser.of_mode & ~allowed
            )
        )
    candidates = chooser.candidates(cards)
    enough = np.count_nonzero(candidates, axis=1)
    distinct = ", each container has chips of its own" if chooser.given is not None else ""
    few = (enough < cards.count) & common.any_card(offered)
    amount = common.Amount(resource, cards.count, enough.astype(np.int64))
    found.append(common.node_check("NodeInsufficientDevice", f"Insufficient {word} chips{distinct}", few, amount))
    for code, failed in chooser.failures(cards).items():
        found.append(_about_room(chooser, cards, code, candidates, candidates & failed))
    return found


def _about_room(chooser: ChipChooser, cards: VnpuCardDemand, code: str, candidates: Bools, failed: Bools) -> Check:
    """Return one check about capacity of chips."""
    view, chip, shared = chooser.view, chooser.demand.chip, chooser.demand.shared

    def amount(text: str, resource: str, asked: int, free: Ints, unit: str) -> Check:
        of_cards = common.Amount(resource, asked, unit=unit).on_cards(free, candidates, failed, cards.count)
        return common.card_check(code, text, failed, of_cards)

    if code == "CardInsufficientMemory":
        asked = cards.memory or int(view.memory[failed].max(initial=0))
        name = chip.memory_resource or chip.resource
        return amount(f"Insufficient {name} on a chip", name, asked, view.memory - view.memory_used, "MiB")
    if code == "CardInsufficientCore" and shared:
        name = chip.core_resource
        return amount(f"Insufficient {name} on a chip", name, cards.cores, ALL_CORES - view.cores_used, "percent")
    if code == "CardInsufficientCore":
        free = chip.ai_cores - chooser.has[AI_CORES]
        return amount("Insufficient AI cores on a chip", chip.resource, cards.ai_cores, free, "AI cores")
    if code == "CardInsufficientCpu":
        free = chip.ai_cpus - chooser.has[AI_CPUS]
        return amount("Insufficient AI CPUs on a chip", chip.resource, cards.ai_cpus, free, "AI CPUs")
    if code == "ModeNotFit":
        other_use = "are partitioned by templates" if shared else f"{wire.HAMI_CORE} shares"
        return common.card_check(code, f"node(s) had chips that {other_use}", failed)
    return common.card_check(code, _TEXTS[code], failed)


_TEXTS = {
    "CardTimeSlicingExhausted": "node(s) had chips that as many pods share as may",
    "ExclusiveDeviceAllocateConflict": "node(s) had chips in use where all cores of a chip are asked",
    "CardComputeUnitsExhausted": "node(s) had chips whose cores are all taken",
}
