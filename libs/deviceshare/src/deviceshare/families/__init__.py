"""The device families. A new one is a new module; :func:`register` makes it known, here or in another package.

Reading order: :mod:`.protocol` (the protocol ``Family`` and its data types), :mod:`.base` and :mod:`.common` (what most
families share), :mod:`.volcano_gpu.gpu_number` (the simplest family), :mod:`.device_plugin` (handoff of pods to device
plugins), :mod:`.registry`, :mod:`.trust` and :mod:`.usage` (devices of bound pods). Each family has a package, in which
``wire`` reads and writes the annotations that its device plugin and others exchange.
"""

from deviceshare.families import common
from deviceshare.families.base import OneByOne
from deviceshare.families.device_plugin import SERVED
from deviceshare.families.errors import FamilyError, UnknownFamilyError, calling
from deviceshare.families.free_parts import card_parts
from deviceshare.families.hami_gpu.family import HamiGpu
from deviceshare.families.hami_vnpu.family import HamiVnpu
from deviceshare.families.hardware import Hardware
from deviceshare.families.hooks import DevicesByNode, Program
from deviceshare.families.mindcluster.family import MindCluster
from deviceshare.families.placed import explain_claim, gang_line, placed_on
from deviceshare.families.protocol import (
    MAX_CARDS,
    Accounting,
    CardCount,
    CardDemand,
    CardNames,
    Check,
    Demand,
    ExpectedDemand,
    Family,
    FirstFailing,
    HeldInPart,
    NodeView,
    Pick,
    Picks,
    Places,
)
from deviceshare.families.registry import BY_NAME, FAMILIES, caveats, family_named, pod_keys, register
from deviceshare.families.selection import WISHES, listed, parts_of_words, types_accepted, types_asked
from deviceshare.families.trust import Demands, clamp_to_request, kind_of
from deviceshare.families.usage import (
    CardCounter,
    accountings,
    device_resources,
    grants_share_whole,
    shares_whole,
)
from deviceshare.families.vgpu.mig import Mig
from deviceshare.families.vgpu.software import HamiCore, Mps
from deviceshare.families.volcano_gpu.gpu_number import GpuNumber
from deviceshare.families.volcano_gpu.gpu_share import GpuShare

__all__ = [
    "BY_NAME",
    "FAMILIES",
    "MAX_CARDS",
    "SERVED",
    "WISHES",
    "Accounting",
    "CardCount",
    "CardCounter",
    "CardDemand",
    "CardNames",
    "Check",
    "Demand",
    "Demands",
    "DevicesByNode",
    "ExpectedDemand",
    "Family",
    "FamilyError",
    "FirstFailing",
    "GpuNumber",
    "HamiGpu",
    "HamiVnpu",
    "Hardware",
    "HeldInPart",
    "Mig",
    "NodeView",
    "OneByOne",
    "Pick",
    "Picks",
    "Places",
    "Program",
    "UnknownFamilyError",
    "accountings",
    "calling",
    "card_parts",
    "caveats",
    "clamp_to_request",
    "common",
    "device_resources",
    "explain_claim",
    "family_named",
    "gang_line",
    "grants_share_whole",
    "kind_of",
    "listed",
    "parts_of_words",
    "placed_on",
    "pod_keys",
    "register",
    "shares_whole",
    "types_accepted",
    "types_asked",
]

for _family in (GpuShare(), GpuNumber(), HamiCore(), Mps(), Mig(), MindCluster(), HamiVnpu(), HamiGpu()):
    register(_family)
