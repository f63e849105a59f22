"""The device families. A new one is a new module and one more entry here."""

from collections.abc import Sequence

from deviceshare.claims import ContainerGrant
from deviceshare.families.gpu_number import GpuNumber
from deviceshare.families.gpu_share import GpuShare
from deviceshare.families.hami_core import HamiCore
from deviceshare.families.protocol import Family

FAMILIES: tuple[Family, ...] = (GpuShare(), GpuNumber(), HamiCore())
"""All families, in the order in which a pod's demands are answered."""

BY_NAME: dict[str, Family] = {family.name: family for family in FAMILIES}


def caveats(grants: Sequence[ContainerGrant]) -> tuple[str, ...]:
    """Return what a user should know of the grants to one pod, of whichever families they are."""
    names = dict.fromkeys(grant.family for grant in grants)
    return tuple(
        caveat
        for name in names
        if name in BY_NAME
        for caveat in BY_NAME[name].caveats([grant for grant in grants if grant.family == name])
    )
