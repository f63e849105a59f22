"""The GPU models that a pod with whole GPUs accepts.

Whole GPUs are a resource of the node, and kubelet chooses the GPU: the accepted models restrict the nodes, by the label
that GPU feature discovery writes (:data:`deviceshare.families.nvidia.PRODUCT`). A node without the label matches no
requested and no excluded model.
"""

from collections.abc import Iterable, Sequence

import msgspec

from deviceshare.conf import TYPE_PARTS
from deviceshare.families import nvidia, parts_of_words, shares_whole, types_accepted, types_asked
from deviceshare.families.card_lists import items
from deviceshare.families.vgpu import wire as vgpu_wire
from deviceshare.model import NodeFact, PodRequest, mebibytes_hint
from deviceshare.state import Bools

ANY = "*"
"""Instead of a model: the node's cards are registered with their types, by which the device family chooses them."""


class ModelWish(msgspec.Struct, frozen=True):
    """Models that the pod requests, and models that it excludes; both apply."""

    use: tuple[str, ...] = ()
    nouse: tuple[str, ...] = ()
    parts: bool = False
    """Whether models that are whole words of no name match parts of words."""

    def accepted(self, names: Sequence[str]) -> Bools:
        """Return for each model name whether the pod accepts it."""
        found = types_accepted(self.use, self.nouse, names, parts=self.parts)
        found[[name == ANY for name in names]] = True
        return found

    def __str__(self) -> str:
        """Return the annotations as the user wrote them."""
        return types_asked(self.use, self.nouse)


def model_wish(ask: PodRequest, resources: Iterable[tuple[str, int]], *, parts: bool) -> ModelWish | None:
    """Return the models that a pod with these node resources accepts; None without whole GPUs or restrictions."""
    wish = ModelWish(items(ask.annotation(vgpu_wire.USE_TYPE)), items(ask.annotation(vgpu_wire.NOUSE_TYPE)), parts)
    whole = any(name.startswith(nvidia.PREFIX) for name, _ in resources)
    return wish if whole and (wish.use or wish.nouse) else None


def type_caveats(ask: PodRequest, names: Sequence[str], *, parts: bool) -> tuple[str, ...]:
    """Return a message for each model in the pod's annotations that is only a part of a word.

    ``parts``: whether parts of words match.
    """
    read = "it was read as" if parts else f"without {TYPE_PARTS} it matches nothing. It is"
    return tuple(
        f"{annotation} {wanted} is no whole word of any model here: {read} a part of {', '.join(meant)}"
        for annotation in (vgpu_wire.USE_TYPE, vgpu_wire.NOUSE_TYPE)
        for wanted in items(ask.annotation(annotation))
        if (meant := parts_of_words(wanted, names))
    )


def unit_caveats(ask: PodRequest) -> tuple[str, ...]:
    """Return a message for each resource of device memory whose amount was probably meant in bytes."""
    amounts = {
        name: amount for container in (*ask.init_containers, *ask.containers) for name, amount in container.resources
    }
    return tuple(hint for name, amount in sorted(amounts.items()) if (hint := mebibytes_hint(name, amount)))


def model_of(node: NodeFact) -> str:
    """Return the model of a node's whole GPUs, '' if unknown.

    Without the label it is the common model of all cards that are registered for sharing. :data:`ANY` where cards are
    shared under the resource of whole GPUs.
    """
    if not any(name.startswith(nvidia.PREFIX) and amount for name, amount in node.allocatable.items()):
        return ""
    if shares_whole(node.cards):
        return ANY
    if label := node.labels.get(nvidia.PRODUCT):
        return label
    types = {card.type for card in node.cards}
    return types.pop() if len(types) == 1 else ""
