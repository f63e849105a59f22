"""MPS: cards shared through NVIDIA's Multi-Process Service, a mode of their own with hami-core's arithmetic.

Volcano takes a node that registers ``mps`` for hami-core (vgpu/utils.go getSharingMode); a pod that asks for the mode
``mps`` then fits nowhere.
"""

from deviceshare.families.vgpu.software import SoftwareVgpu
from deviceshare.formats import vgpu


class Mps(SoftwareVgpu):
    """The family ``mps``."""

    def __init__(self) -> None:
        super().__init__(vgpu.MPS)
