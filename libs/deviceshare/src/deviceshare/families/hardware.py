"""Whose cards a family cuts, and what is said of them whichever family it is."""

import msgspec

from deviceshare.formats import gpu_share, nvidia


class Hardware(msgspec.Struct, frozen=True):
    """Cards of one kind: where several device plugins register those of a node, they are the same cards."""

    name: str
    """What the cards are called: ``NVIDIA GPUs``."""
    whole: str = ""
    """Resource by which a device plugin of the vendor gives them whole, '' for none."""
    unhealthy: str = ""
    """Annotation of a node that lists cards which must not be used, by index or id; '' for none."""


NVIDIA = Hardware("NVIDIA GPUs", whole=nvidia.GPU, unhealthy=gpu_share.UNHEALTHY)
ASCEND = Hardware("Ascend NPUs")
