"""The free parts of cards, as the policy ``fragmentation`` measures them."""

import numpy as np

from deviceshare.conf import SchedulerConf
from deviceshare.families.vgpu import wire as vgpu_wire
from deviceshare.families.vgpu.cutting import CUT, USED, MigKinds
from deviceshare.kernels import CardParts
from deviceshare.state import Codes


def card_parts(codes: Codes, conf: SchedulerConf) -> CardParts:
    """Return how free parts follow from the fields of a card: instances of MIG cards, amounts of all others."""
    kinds, mig = codes.kinds, MigKinds(codes, conf)
    partitioned = (kinds.of_mode(vgpu_wire.MIG) & mig.cuttable).astype(np.uint8)
    found = CardParts(kinds.memory.copy(), kinds.cores.copy(), kinds.slots.copy(), partitioned, mig.tables)
    found.cut_field, found.used_field = codes.field(CUT), codes.field(USED)
    return found
