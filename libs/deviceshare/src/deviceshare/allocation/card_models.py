"""Which models of GPUs a pod accepts that asks whole ones.

Whole GPUs are plain amounts of a node, and kubelet chooses among them: a choice of models is a choice of nodes, by the
label that GPU feature discovery writes (:data:`deviceshare.formats.nvidia.PRODUCT`). A node that nobody labels is none
of the models that a pod asks for, and none of those that it excludes.
"""

from collections.abc import Iterable, Sequence

import msgspec

from deviceshare.families import parts_of_words, types_accepted, types_asked
from deviceshare.formats import nvidia, vgpu
from deviceshare.formats.card_lists import items
from deviceshare.model import NodeFact, PodRequest
from deviceshare.state import Bools


class ModelWish(msgspec.Struct, frozen=True):
    """Models that are asked for, and models that are excluded. Both lists count."""

    use: tuple[str, ...] = ()
    nouse: tuple[str, ...] = ()

    def accepted(self, names: Sequence[str]) -> Bools:
        """Return for each name of a model whether the pod accepts it."""
        return types_accepted(self.use, self.nouse, names)

    def __str__(self) -> str:
        """Return the annotations, as a user wrote them."""
        return types_asked(self.use, self.nouse)


def model_wish(ask: PodRequest, resources: Iterable[tuple[str, int]]) -> ModelWish | None:
    """Return the choice of a pod that takes these plain amounts of a node, None where it has none to make."""
    wish = ModelWish(items(ask.annotation(vgpu.USE_TYPE)), items(ask.annotation(vgpu.NOUSE_TYPE)))
    whole = any(name.startswith(nvidia.PREFIX) for name, _ in resources)
    return wish if whole and (wish.use or wish.nouse) else None


def type_caveats(ask: PodRequest, names: Sequence[str]) -> tuple[str, ...]:
    """Return what a user should know of the models that a pod lists: which are a part of a word at most."""
    return tuple(
        f"{annotation} {wanted} is no whole word of any model here: it was read as a part of {', '.join(meant)}"
        for annotation in (vgpu.USE_TYPE, vgpu.NOUSE_TYPE)
        for wanted in items(ask.annotation(annotation))
        if (meant := parts_of_words(wanted, names))
    )


def model_of(node: NodeFact) -> str:
    """Return the model of a node's whole GPUs, '' where nobody tells.

    Where the label is missing, cards that are registered for sharing tell it, if all are alike.
    """
    if not any(name.startswith(nvidia.PREFIX) and amount for name, amount in node.allocatable.items()):
        return ""
    if label := node.labels.get(nvidia.PRODUCT):
        return label
    types = {card.type for card in node.cards}
    return types.pop() if len(types) == 1 else ""
