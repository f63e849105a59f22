"""The form of each family's nodes and pods: the annotations of its device plugin, and its resources.

Each form has three methods: ``node`` returns annotations and allocatable device resources of a node with these cards,
``existing`` annotations and limits of a pod with this value of the family's device annotation, and ``value`` the device
annotation from the annotations of a placement.
"""

import json
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from deviceshare.families.hami_vnpu import wire as hami_vnpu_wire
from deviceshare.families.hami_vnpu.section import VnpuChip
from deviceshare.families.vgpu import wire as vgpu_wire
from deviceshare.families.volcano_gpu import wire as gpu_share_wire

from deviceshare_lab.clusters import cards
from deviceshare_lab.clusters.cards import Published


class CardKind(NamedTuple):
    """The kind of all cards of a workload: model, MiB, maximum number of pods, percent or AI cores."""

    model: str
    memory: int
    slots: int
    cores: int


class Vgpu(NamedTuple):
    """hami-core and MIG."""

    mode: str

    def node(self, kind: CardKind, ids: Sequence[str]) -> Published:
        """Return a register annotation with one item per card."""
        return cards.vgpu(ids, kind.model, kind.memory, kind.slots, self.mode, kind.cores)

    def existing(self, value: str) -> tuple[dict[str, str], dict[str, str]]:
        """Return the annotation of one container."""
        return {vgpu_wire.IDS: value}, {"volcano.sh/vgpu-number": "1"}

    def value(self, annotations: Mapping[str, str]) -> str:
        """Return the annotation without the empty slots of containers without a request."""
        return ";".join(slot for slot in annotations[vgpu_wire.IDS].split(";") if slot)


class HamiVnpu(NamedTuple):
    """Ascend chips, partitioned by templates."""

    chip: VnpuChip
    cards_per_network: int = 4

    def node(self, kind: CardKind, ids: Sequence[str]) -> Published:
        """Return a register annotation with a JSON list of cards."""
        return cards.ascend(
            ids, self.chip.word, self.chip.resource, kind.memory, kind.slots, kind.cores, self.cards_per_network
        )

    def existing(self, value: str) -> tuple[dict[str, str], dict[str, str]]:
        """Return the annotations; the template follows from the memory, none for a whole chip."""
        templates = {template.memory: template.name for template in self.chip.templates}
        given = []
        for item in value.replace(";", "").split(":"):
            if item:
                uuid, _, memory, _ = item.split(",")
                template = templates.get(int(memory))
                given.append({"UUID": uuid} | ({"temp": template} if template else {}))
        annotations = {
            hami_vnpu_wire.allocated(self.chip.word): value,
            hami_vnpu_wire.to_allocate(self.chip.word): value,
            hami_vnpu_wire.runtime(self.chip.word): json.dumps(given),
        }
        return annotations, {self.chip.resource: str(len(given))}

    def value(self, annotations: Mapping[str, str]) -> str:
        """Return the annotation unchanged."""
        return annotations[hami_vnpu_wire.allocated(self.chip.word)]


class GpuShare(NamedTuple):
    """Cards identified by their index; the amounts are in the pod's limits: ``index:MiB``."""

    def node(self, kind: CardKind, ids: Sequence[str]) -> Published:
        """Return the number of cards and their memory as resources."""
        return cards.gpus(len(ids), kind.memory)

    def existing(self, value: str) -> tuple[dict[str, str], dict[str, str]]:
        """Return the annotation and limit of one card."""
        index, _, memory = value.partition(":")
        return {gpu_share_wire.INDEX: index}, {gpu_share_wire.MEMORY: memory}

    def value(self, annotations: Mapping[str, str]) -> str:
        """Return the index."""
        return annotations[gpu_share_wire.INDEX]


Form = Vgpu | HamiVnpu | GpuShare
"""The form of one family."""
