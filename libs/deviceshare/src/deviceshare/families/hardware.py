"""The hardware of a family's cards, and what all families of the same hardware have in common."""

import msgspec

from deviceshare.families import nvidia
from deviceshare.families.volcano_gpu import wire as gpu_share_wire


class Hardware(msgspec.Struct, frozen=True):
    """Cards of one vendor: what several device plugins register on a node are the same cards."""

    name: str
    """The name of the cards: ``NVIDIA GPUs``."""
    whole: str = ""
    """The resource by which the vendor's device plugin offers whole cards, '' for none."""
    whole_prefix: str = ""
    """The prefix of such resources, if the plugin has one for each model of cards; '' for none."""
    unhealthy: str = ""
    """The annotation of a node that lists cards that must not be used, by index or id; '' for none."""

    model_label: str = ""
    """The label of a node with the model of its whole cards, '' for none."""

    def offers_whole(self, resource: str) -> bool:
        """Return whether the vendor's device plugin offers whole cards by a resource."""
        return resource == self.whole or bool(self.whole_prefix and resource.startswith(self.whole_prefix))


NVIDIA = Hardware("NVIDIA GPUs", whole=nvidia.GPU, unhealthy=gpu_share_wire.UNHEALTHY, model_label=nvidia.PRODUCT)
ASCEND = Hardware("Ascend NPUs", whole_prefix="huawei.com/Ascend")
