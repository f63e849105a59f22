"""Deviations of vGPU in all modes."""

from collections.abc import Iterable, Sequence

from deviceshare.families.card_lists import items
from deviceshare.families.numbers import whole
from deviceshare.families.vgpu import wire
from deviceshare.families.vgpu.section import VgpuConf
from deviceshare.model import Card, FormatError
from msgspec.structs import replace

from deviceshare_lab.conformance.cases import Pod
from deviceshare_lab.conformance.deviations.base import Deviation, of_pod, with_limits, without, without_annotations
from deviceshare_lab.conformance.scene import Scene

NO_PERCENTAGE = "101"
"""The percentage that means "no request" in Volcano."""
USUAL = VgpuConf()
"""The default names of resources. On nodes Volcano reads only these, even if ``device-config.yaml`` has others."""


def _without_cards(scene: Scene) -> Scene:
    node = scene.node
    if all(str(node.allocatable.get(name, "0")) != "0" for name in (USUAL.number, USUAL.memory, USUAL.cores)):
        return scene
    return replace(scene, node=replace(node, annotations=without(node.annotations, wire.REGISTER)))


def _once_a_card(scene: Scene) -> Scene:
    existing = dict(scene.existing)
    for ref, pod in existing.items():
        if ref in scene.counted and wire.IDS in pod.annotations:
            ids = _first_on_each_card(pod.annotations[wire.IDS])
            existing[ref] = replace(pod, annotations=pod.annotations | {wire.IDS: ids})
    return replace(scene, existing=existing)


def _first_on_each_card(ids: str) -> str:
    seen: set[str] = set()
    slots = []
    for slot in ids.split(";"):
        kept = ""
        for device in slot.split(":"):
            card = device.split(",")[0].split("[")[0]
            if card and card not in seen:
                kept += f"{device}:"
            seen.add(card)
        slots.append(kept)
    return ";".join(slots)


@of_pod
def _only_one_list(_: Scene, pod: Pod) -> Pod:
    both = {wire.USE_TYPE, wire.NOUSE_TYPE} <= pod.annotations.keys()
    return without_annotations(pod, wire.NOUSE_TYPE) if both else pod


@of_pod
def _empty_items(_: Scene, pod: Pod) -> Pod:
    if "" in pod.annotations.get(wire.USE_TYPE, "any").split(","):
        return without_annotations(pod, wire.USE_TYPE)
    if "" in pod.annotations.get(wire.NOUSE_TYPE, "none").split(","):
        return _of_cards(without_annotations(pod, wire.NOUSE_TYPE), ())
    return pod


@of_pod
def _parts_of_words(scene: Scene, pod: Pod) -> Pod:
    use, nouse = (
        [part for part in pod.annotations.get(key, "").split(",") if part] for key in (wire.USE_TYPE, wire.NOUSE_TYPE)
    )
    if not use and not nouse:
        return pod
    allowed = [
        card.id
        for card in cards_of(scene)
        if (not use or _has_part(card.type, use)) and not _has_part(card.type, nouse)
    ]
    return _of_cards(without_annotations(pod, wire.USE_TYPE, wire.NOUSE_TYPE), allowed)


@of_pod
def _number_or_memory(scene: Scene, pod: Pod) -> Pod:
    names = scene.conf.devices.section(VgpuConf)
    amounts = (names.number, names.memory, names.percentage, names.cores, USUAL.percentage)

    def read(limits: dict[str, str]) -> dict[str, str]:
        if names.number in limits or whole(limits.get(names.memory, "0")):
            return limits
        return limits | {names.number: "1"} if names.memory in limits else without(limits, *amounts)

    inits = tuple(replace(each, limits=without(each.limits, *amounts)) for each in pod.init_containers)
    return replace(with_limits(pod, read), init_containers=inits)


def _without_defaults(scene: Scene) -> Scene:
    return with_vgpu_conf(scene, default_number=1, default_memory=0, default_cores=0)


def with_vgpu_conf(scene: Scene, **changes: object) -> Scene:
    """Return the scene with another configuration of vGPUs."""
    devices = scene.conf.devices
    devices = devices.having(replace(devices.section(VgpuConf), **changes))
    return replace(scene, conf=replace(scene.conf, devices=devices))


@of_pod
def _any_policy(_: Scene, pod: Pod) -> Pod:
    known = pod.annotations.get(wire.PODGROUP_POLICY, wire.SPREAD) == wire.SPREAD
    return pod if known else without_annotations(pod, wire.PODGROUP_POLICY)


@of_pod
def _no_percentage(scene: Scene, pod: Pod) -> Pod:
    name = scene.conf.devices.section(VgpuConf).percentage
    return with_limits(pod, lambda limits: without(limits, name) if limits.get(name) == NO_PERCENTAGE else limits)


def _without_holes(scene: Scene) -> Scene:
    return with_register(scene, (card for card in _register_of(scene) if "," in card))


def _shared_by_hami_core(scene: Scene) -> Scene:
    return with_register(
        scene,
        (
            card.removesuffix(wire.MPS) + wire.HAMI_CORE if card.endswith(f",{wire.MPS}") else card
            for card in _register_of(scene)
        ),
    )


def _register_of(scene: Scene) -> Sequence[str]:
    """Return the parts of the node's register annotation, each of which ends with a colon."""
    return scene.node.annotations.get(wire.REGISTER, "").split(":")[:-1]


def with_register(scene: Scene, cards: Iterable[str]) -> Scene:
    """Return the scene with these parts of the node's register annotation, if it has one."""
    node = scene.node
    if wire.REGISTER not in node.annotations:
        return scene
    register = "".join(f"{card}:" for card in cards)
    return replace(scene, node=replace(node, annotations=node.annotations | {wire.REGISTER: register}))


def registered(card: Card, model: str, mode: str) -> str:
    """Return the part of a register annotation for a card of another model or mode."""
    return f"{card.id},{card.slots},{card.memory},{model},{str(card.healthy).lower()},{mode}"


def _has_part(name: str, parts: Iterable[str]) -> bool:
    return any(part.upper() in name.upper() for part in parts)


def _of_cards(pod: Pod, ids: Iterable[str]) -> Pod:
    """Return the pod restricted to these cards."""
    wanted = items(pod.annotations.get(wire.USE_ID))
    allowed = [card for card in ids if not wanted or card in wanted]
    return replace(pod, annotations=pod.annotations | {wire.USE_ID: ",".join(allowed) or "none"})


def cards_of(scene: Scene) -> tuple[Card, ...]:
    """Return the vGPU cards of the node's register annotation."""
    try:
        return wire.read_register(scene.node.annotations.get(wire.REGISTER, ""), scene.node.name)
    except FormatError:
        return ()


VGPU = (
    Deviation("register-holes", "a register annotation with an invalid card is refused", _without_holes),
    Deviation(
        "registered-node",
        "a node that registers vGPU cards has them, even if its kubelet lacks a resource name or offers 0",
        _without_cards,
    ),
    Deviation(
        "each-device-charged", "every device of a pod is charged", _once_a_card, "vgpu-multi-container-same-card"
    ),
    Deviation("both-type-lists", "use-gputype and nouse-gputype both apply", _only_one_list),
    Deviation("empty-type-items", "an empty item of a list of types is ignored", _empty_items),
    Deviation("types-by-words", "a type is matched by whole words first", _parts_of_words),
    Deviation(
        "vgpu-by-any-amount",
        "a percentage or cores alone request a vGPU, 0 MiB alone none, and init containers count",
        _number_or_memory,
    ),
    Deviation("mps-cards", "cards in MPS mode serve pods that request MPS", _shared_by_hami_core),
    Deviation("default-amounts", "the default amounts of device-config.yaml apply", _without_defaults),
    Deviation("podgroup-policies", "an unknown vgpu-podgroup-policy is refused", _any_policy),
    Deviation("percentage-101", "a percentage above 100 is refused", _no_percentage),
)
