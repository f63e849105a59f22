"""vGPU, however its cards are cut."""

from collections.abc import Iterable, Sequence

from deviceshare.conf import VgpuConf
from deviceshare.formats import vgpu
from deviceshare.formats.card_lists import items
from deviceshare.formats.numbers import whole
from deviceshare.model import Card, FormatError
from msgspec.structs import replace

from deviceshare_cli.conformance.cases import Container, Pod
from deviceshare_cli.conformance.deviations.base import Deviation, with_annotation
from deviceshare_cli.conformance.scene import Scene

NO_PERCENTAGE = "101"
"""The percentage by which Volcano means that none was asked."""
USUAL = VgpuConf()
"""The names of resources where ``device-config.yaml`` gives no others. On nodes Volcano looks for these alone."""


def _without_cards(scene: Scene) -> Scene:
    node = scene.node
    if {USUAL.number, USUAL.memory, USUAL.cores} <= node.allocatable.keys():
        return scene
    annotations = {key: value for key, value in node.annotations.items() if key != vgpu.REGISTER}
    return replace(scene, node=replace(node, annotations=annotations))


def _once_a_card(scene: Scene) -> Scene:
    existing = {
        ref: with_annotation(pod, vgpu.IDS, _first_on_each_card(pod.annotations.get(vgpu.IDS, "")))
        if ref in scene.counted
        else pod
        for ref, pod in scene.existing.items()
    }
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


def _only_one_list(scene: Scene) -> Scene:
    pod = scene.asked
    if pod is None or not {vgpu.USE_TYPE, vgpu.NOUSE_TYPE} <= pod.annotations.keys():
        return scene
    return replace(scene, asked=with_annotation(pod, vgpu.NOUSE_TYPE, ""))


def _empty_items(scene: Scene) -> Scene:
    pod = scene.asked
    if pod is None:
        return scene
    if "" in pod.annotations.get(vgpu.USE_TYPE, "any").split(","):
        return replace(scene, asked=with_annotation(pod, vgpu.USE_TYPE, ""))
    if "" in pod.annotations.get(vgpu.NOUSE_TYPE, "none").split(","):
        return replace(scene, asked=_of_cards(with_annotation(pod, vgpu.NOUSE_TYPE, ""), ()))
    return scene


def _parts_of_words(scene: Scene) -> Scene:
    pod = scene.asked
    if pod is None:
        return scene
    use, nouse = (
        [part for part in pod.annotations.get(key, "").split(",") if part] for key in (vgpu.USE_TYPE, vgpu.NOUSE_TYPE)
    )
    if not use and not nouse:
        return scene
    allowed = [
        card.id
        for card in cards_of(scene)
        if (not use or _has_part(card.type, use)) and not _has_part(card.type, nouse)
    ]
    return replace(
        scene, asked=_of_cards(with_annotation(with_annotation(pod, vgpu.USE_TYPE, ""), vgpu.NOUSE_TYPE, ""), allowed)
    )


def _number_or_memory(scene: Scene) -> Scene:
    pod, names = scene.asked, scene.conf.devices.vgpu
    if pod is None:
        return scene
    amounts = {names.number, names.memory, names.percentage, names.cores, USUAL.percentage}

    def read(container: Container) -> Container:
        limits = container.limits
        if names.number in limits or whole(limits.get(names.memory, "0")):
            return container
        if names.memory in limits:
            return replace(container, limits=limits | {names.number: "1"})
        return without(container)

    def without(container: Container) -> Container:
        return replace(container, limits={name: each for name, each in container.limits.items() if name not in amounts})

    inits = tuple(without(each) for each in pod.init_containers)
    return replace(scene, asked=replace(pod, containers=tuple(map(read, pod.containers)), init_containers=inits))


def _without_defaults(scene: Scene) -> Scene:
    devices = scene.conf.devices
    names = replace(devices.vgpu, default_number=1, default_memory=0, default_cores=0)
    return replace(scene, conf=replace(scene.conf, devices=replace(devices, vgpu=names)))


def _any_policy(scene: Scene) -> Scene:
    pod = scene.asked
    if pod is None or pod.annotations.get(vgpu.PODGROUP_POLICY, vgpu.SPREAD) == vgpu.SPREAD:
        return scene
    return replace(scene, asked=with_annotation(pod, vgpu.PODGROUP_POLICY, ""))


def _no_percentage(scene: Scene) -> Scene:
    pod, percentage = scene.asked, scene.conf.devices.vgpu.percentage
    if pod is None:
        return scene

    def read(container: Container) -> Container:
        rest = {name: each for name, each in container.limits.items() if (name, each) != (percentage, NO_PERCENTAGE)}
        return replace(container, limits=rest)

    return replace(scene, asked=replace(pod, containers=tuple(map(read, pod.containers))))


def _without_holes(scene: Scene) -> Scene:
    return _with_register(scene, (card for card in _parts_of_register(scene) if "," in card))


def _shared_by_hami_core(scene: Scene) -> Scene:
    return _with_register(
        scene,
        (
            card.removesuffix(vgpu.MPS) + vgpu.HAMI_CORE if card.endswith(f",{vgpu.MPS}") else card
            for card in _parts_of_register(scene)
        ),
    )


def _parts_of_register(scene: Scene) -> Sequence[str]:
    """Return what stands between the colons of the node's register, nothing behind the last one."""
    return scene.node.annotations.get(vgpu.REGISTER, "").split(":")[:-1]


def _with_register(scene: Scene, cards: Iterable[str]) -> Scene:
    node = scene.node
    if vgpu.REGISTER not in node.annotations:
        return scene
    register = "".join(f"{card}:" for card in cards)
    return replace(scene, node=replace(node, annotations=node.annotations | {vgpu.REGISTER: register}))


def _has_part(name: str, parts: Iterable[str]) -> bool:
    return any(part.upper() in name.upper() for part in parts)


def _of_cards(pod: Pod, ids: Iterable[str]) -> Pod:
    """Return the pod, on these cards alone."""
    wanted = items(pod.annotations.get(vgpu.USE_ID))
    allowed = [card for card in ids if not wanted or card in wanted]
    return with_annotation(pod, vgpu.USE_ID, ",".join(allowed) or "none")


def cards_of(scene: Scene) -> tuple[Card, ...]:
    """Return the vGPU cards that the node registers."""
    try:
        return vgpu.read_register(scene.node.annotations.get(vgpu.REGISTER, ""), scene.node.name)
    except FormatError:
        return ()


VGPU = (
    Deviation("register-holes", "a register with a part that is no card is refused", _without_holes),
    Deviation(
        "registered-node",
        "a node that registers vGPU cards has them, whatever its kubelet does not name",
        _without_cards,
    ),
    Deviation(
        "each-device-charged", "every device that a pod has is charged", _once_a_card, "vgpu-multi-container-same-card"
    ),
    Deviation("both-type-lists", "use-gputype and nouse-gputype count together", _only_one_list),
    Deviation("empty-type-items", "an empty item of a list of types means nothing", _empty_items),
    Deviation("types-by-words", "a type is matched by whole words first", _parts_of_words),
    Deviation(
        "vgpu-by-any-amount",
        "a percentage or cores alone ask a vGPU, 0 MiB alone none, and init containers ask as well",
        _number_or_memory,
    ),
    Deviation("mps-cards", "cards in MPS mode serve pods that ask for MPS", _shared_by_hami_core),
    Deviation("default-amounts", "the default amounts of device-config.yaml hold", _without_defaults),
    Deviation("podgroup-policies", "a vgpu-podgroup-policy that there is not is refused", _any_policy),
    Deviation("percentage-101", "a percentage above 100 is refused", _no_percentage),
)
