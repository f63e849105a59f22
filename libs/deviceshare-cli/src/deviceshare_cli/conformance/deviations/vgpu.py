"""vGPU, however its cards are cut."""

from collections.abc import Iterable

from deviceshare.errors import FormatError
from deviceshare.facts import Card
from deviceshare.formats import vgpu
from deviceshare.formats.card_lists import items
from deviceshare.formats.numbers import whole
from msgspec.structs import replace

from deviceshare_cli.conformance.cases import Container, Pod
from deviceshare_cli.conformance.deviations.base import Deviation, with_annotation
from deviceshare_cli.conformance.scene import Scene


def _without_cards(scene: Scene) -> Scene:
    node, names = scene.node, scene.conf.devices.vgpu
    if {names.number, names.memory, names.cores} <= node.allocatable.keys():
        return scene
    annotations = {key: value for key, value in node.annotations.items() if key != vgpu.REGISTER}
    return replace(scene, node=replace(node, annotations=annotations))


def _once_a_card(scene: Scene) -> Scene:
    standing = {
        ref: with_annotation(pod, vgpu.IDS, _first_on_each_card(pod.annotations.get(vgpu.IDS, "")))
        if ref in scene.counted
        else pod
        for ref, pod in scene.standing.items()
    }
    return replace(scene, standing=standing)


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
    amounts = {names.number, names.memory, names.percentage, names.cores}

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
)
