"""The device families. A new one is a new module; :func:`register` makes it known, here or in another package.

Reading order: :mod:`.protocol` (the protocol ``Family`` and its data types), :mod:`.base` and :mod:`.common` (what most
families share), :mod:`.volcano_gpu.gpu_number` (the simplest family), :mod:`.device_plugin` (handoff of pods to device
plugins), :mod:`.registry`, :mod:`.trust` and :mod:`.usage` (devices of bound pods). Each family has a package, in which
``wire`` reads and writes the annotations that its device plugin and others exchange.
"""

from deviceshare.families import common as common
from deviceshare.families.base import OneByOne as OneByOne
from deviceshare.families.device_plugin import SERVED as SERVED
from deviceshare.families.errors import (
    FamilyError as FamilyError,
    UnknownFamilyError as UnknownFamilyError,
    calling as calling,
)
from deviceshare.families.free_parts import card_parts as card_parts
from deviceshare.families.hami_gpu.family import HamiGpu as HamiGpu
from deviceshare.families.hami_vnpu.family import HamiVnpu as HamiVnpu
from deviceshare.families.hardware import Hardware as Hardware
from deviceshare.families.hooks import DevicesByNode as DevicesByNode, Program as Program
from deviceshare.families.mindcluster.family import MindCluster
from deviceshare.families.placed import explain_claim as explain_claim, gang_line as gang_line, placed_on as placed_on
from deviceshare.families.protocol import (
    MAX_CARDS as MAX_CARDS,
    Accounting as Accounting,
    CardCount as CardCount,
    CardDemand as CardDemand,
    CardNames as CardNames,
    Check as Check,
    Demand as Demand,
    ExpectedDemand as ExpectedDemand,
    Family as Family,
    FirstFailing as FirstFailing,
    HeldInPart as HeldInPart,
    NodeView as NodeView,
    Pick as Pick,
    Picks as Picks,
    Places as Places,
)
from deviceshare.families.registry import (
    BY_NAME as BY_NAME,
    FAMILIES as FAMILIES,
    caveats as caveats,
    family_named as family_named,
    pod_keys as pod_keys,
    register as register,
)
from deviceshare.families.selection import (
    listed as listed,
    parts_of_words as parts_of_words,
    types_accepted as types_accepted,
    types_asked as types_asked,
)
from deviceshare.families.trust import Demands as Demands, clamp_to_request as clamp_to_request, kind_of as kind_of
from deviceshare.families.usage import (
    CardCounter as CardCounter,
    accountings as accountings,
    device_resources as device_resources,
    grants_share_whole as grants_share_whole,
    shares_whole as shares_whole,
)
from deviceshare.families.vgpu.mig import Mig as Mig
from deviceshare.families.vgpu.software import HamiCore, Mps
from deviceshare.families.volcano_gpu.gpu_number import GpuNumber as GpuNumber
from deviceshare.families.volcano_gpu.gpu_share import GpuShare

for _family in (GpuShare(), GpuNumber(), HamiCore(), Mps(), Mig(), MindCluster(), HamiVnpu(), HamiGpu()):
    register(_family)
