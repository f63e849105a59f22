"""vGPU: one request of a pod, answered by software sharing (hami-core, MPS) or by hardware partitions (MIG).

Rules: Volcano pkg/scheduler/api/devices/nvidia/vgpu; wire format: :mod:`deviceshare.formats.vgpu`.
"""

from deviceshare.families.vgpu.mig import Mig
from deviceshare.families.vgpu.software import HamiCore, Mps

__all__ = ["HamiCore", "Mig", "Mps"]
