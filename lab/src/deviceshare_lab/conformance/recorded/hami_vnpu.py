"""Ascend vNPU, HAMi mode: state ``[[pods, MiB, cores], …]`` of the chips of the case's kind, by their index."""

from deviceshare.families.hami_vnpu import wire
from deviceshare.model import Card, NodeFact

from deviceshare_lab.conformance.cases import Case
from deviceshare_lab.conformance.recorded.form import Form


class HamiVnpu(Form):
    """vNPUs of HAMi's device plugin."""

    def has(self, case: Case, card: Card) -> bool:
        """Return whether a card is a chip of the case's kind."""
        return card.mode in wire.MODES and card.type == case.kind

    def present(self, case: Case, node: NodeFact) -> bool:
        """Return whether the node has chips of the case's kind and its kubelet offers them."""
        return bool(node.allocatable.get(wire.runtime(case.kind))) and super().present(case, node)

    def choice(self, case: Case) -> str:
        """Return the annotation of the kind that names devices."""
        return wire.allocated(case.kind)

    def bare(self, key: str, value: str) -> str:
        """Drop empty slots: Volcano writes none for a container without a request."""
        if not key.endswith(("-devices-allocated", "-devices-to-allocate")):
            return value
        *slots, rest = value.split(";")
        return "".join(f"{slot};" for slot in slots if slot) + rest
