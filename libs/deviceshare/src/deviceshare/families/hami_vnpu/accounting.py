"""The usage of chips: the AI cores and AI CPUs of templates, and shares under HAMi-core."""

from collections.abc import Sequence
from functools import lru_cache
from operator import add

from deviceshare.conf import SchedulerConf
from deviceshare.families import common
from deviceshare.families.hami_vnpu import wire
from deviceshare.families.hami_vnpu.demand import template_for
from deviceshare.families.hami_vnpu.placing import AI_CORES, AI_CPUS, SHARES
from deviceshare.families.hami_vnpu.section import VnpuChip, VnpuConf
from deviceshare.families.protocol import Accounting, CardCount
from deviceshare.model import INIT, WHOLE, Card, DeviceGrant
from deviceshare.state import CardShare, Counted, Usage, usage_of

_OTHERS = -1
"""Instead of an init container's position: the sum of all other containers."""

_UNUSED: Counted = Usage(), {AI_CORES: 0, AI_CPUS: 0, SHARES: 0}


class VnpuAccounting(Accounting):
    """Memory and cores add up; each pod takes the AI cores and AI CPUs of its templates as well."""

    state = (AI_CORES, AI_CPUS, SHARES)

    def count(self, card: Card, pods: Sequence[Sequence[CardShare]], conf: SchedulerConf) -> Counted:
        """Return the used amounts, and the AI cores, AI CPUs and shares of a chip."""
        counted = _UNUSED
        for shares in pods:
            counted = self.add(card, counted, shares, conf)
        return counted

    def add(self, card: Card, counted: Counted, shares: Sequence[CardShare], conf: SchedulerConf) -> Counted:
        """Add what one more pod uses."""
        chip = conf.devices.section(VnpuConf).chip(card.type)
        (memory, cores, slots), state = counted
        more = usage_of(card, shares)
        ai_cores, ai_cpus, parts = _state_of(shares, chip, card)
        return Usage(memory + more.memory, cores + more.cores, slots + more.slots), {
            AI_CORES: state[AI_CORES] + ai_cores,
            AI_CPUS: state[AI_CPUS] + ai_cpus,
            SHARES: state[SHARES] + parts,
        }

    def shown(self, card: Card, counted: Counted, conf: SchedulerConf) -> CardCount:
        """Return the usage with the AI cores of templates, and the largest template or share that has capacity."""
        used, state = counted
        chip = conf.devices.section(VnpuConf).chip(card.type)
        if chip is not None and chip.ai_cores:
            # A chip registers its AI cores, or 100 percent on a node with HAMi-core.
            used = used._replace(cores=used.cores + state[AI_CORES] * card.cores // chip.ai_cores)
        free = common.largest_free(card, used)
        if chip is None or not free or not used.slots or state[SHARES]:
            return CardCount(used, free)
        left = (free, chip.ai_cores - state[AI_CORES], chip.ai_cpus - state[AI_CPUS] if chip.ai_cpus else None)
        return CardCount(used, _largest_template(chip, *left))


def _largest_template(chip: VnpuChip, memory: int, ai_cores: int, ai_cpus: int | None) -> int:
    """Return the MiB of the largest template for these free amounts, 0 for none; ``ai_cpus`` None: no limit."""
    fitting = (
        each.memory
        for each in chip.templates
        if each.memory <= memory and each.ai_cores <= ai_cores and (ai_cpus is None or each.ai_cpus <= ai_cpus)
    )
    return max(fitting, default=0)


def _state_of(shares: Sequence[CardShare], chip: VnpuChip | None, card: Card) -> tuple[int, ...]:
    """Return the AI cores, AI CPUs and shares of a chip that one pod uses.

    They are the larger of its largest init container and the sum of the others.
    """
    if len(shares) == 1:
        return _amounts_of(shares[0].device, chip, card)
    taken: dict[int, tuple[int, ...]] = {_OTHERS: (0, 0, 0)}
    for share in shares:
        taker = share.position if share.stage == INIT else _OTHERS
        taken[taker] = tuple(map(add, taken.get(taker, (0, 0, 0)), _amounts_of(share.device, chip, card)))
    return tuple(map(max, zip(*taken.values(), strict=True)))


def _amounts_of(device: DeviceGrant, chip: VnpuChip | None, card: Card) -> tuple[int, int, int]:
    """Return the AI cores, AI CPUs and shares of one device."""
    return _amounts(device.detail, card.memory if device.memory == WHOLE else device.memory, chip)


@lru_cache(maxsize=4096)
def _amounts(detail: str, memory: int, chip: VnpuChip | None) -> tuple[int, int, int]:
    """Return the AI cores, AI CPUs and shares of a device with this detail.

    An unknown template counts as the template for its memory.
    """
    cut = wire.Detail.of(detail).cut
    if cut == wire.HAMI_CORE:
        return 0, 0, 1
    if chip is None:
        return 0, 0, 0
    template = next((each for each in chip.templates if each.name == cut), None) or template_for(chip, memory)
    return (template.ai_cores, template.ai_cpus, 0) if template else (chip.ai_cores, chip.ai_cpus, 0)
