"""Where we answer otherwise than Volcano on purpose.

A deviation says what Volcano reads in a scene where we read something else. It explains a difference only if we answer
exactly as recorded when we are given that: so it can hide nothing but itself. What a user has from each of them stands
in ``docs/compatibility.md``.
"""

from collections.abc import Callable, Collection, Iterable
from typing import Any

import msgspec
from deviceshare.conf.device_model import MigGroup, MigModel, VnpuChip
from deviceshare.facts import Card
from deviceshare.families.selection import items
from deviceshare.formats import hami_vnpu, vgpu
from msgspec.structs import replace

from deviceshare_cli.conformance.cases import Container, Pod
from deviceshare_cli.conformance.scene import Scene


class Deviation(msgspec.Struct, frozen=True):
    """One rule of ours: its name, the rule, and the scene in which we would answer as Volcano does in a given one.

    ``as_volcano`` returns an equal scene where the rule makes no difference.
    """

    name: str
    rule: str
    as_volcano: Callable[[Scene], Scene]


def _without_policy(scene: Scene) -> Scene:
    return replace(scene, conf=replace(scene.conf, policy=""))


def _locked(scene: Scene) -> Scene:
    return replace(scene, closed=scene.locked)


def _ended_counted(scene: Scene) -> Scene:
    standing = {
        ref: replace(pod, phase="Running") if pod.phase in ("Succeeded", "Failed") else pod
        for ref, pod in scene.standing.items()
    }
    return replace(scene, standing=standing)


def _without_cards(scene: Scene) -> Scene:
    node = scene.node
    if scene.conf.devices.vgpu.cores in node.allocatable:
        return scene
    annotations = {key: value for key, value in node.annotations.items() if key != vgpu.REGISTER}
    return replace(scene, node=replace(node, annotations=annotations))


def _once_a_card(scene: Scene) -> Scene:
    standing = {
        ref: _with(pod, vgpu.IDS, _first_on_each_card(pod.annotations.get(vgpu.IDS, "")))
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
    return replace(scene, asked=_with(pod, vgpu.NOUSE_TYPE, ""))


def _empty_items(scene: Scene) -> Scene:
    pod = scene.asked
    if pod is None:
        return scene
    if "" in pod.annotations.get(vgpu.USE_TYPE, "any").split(","):
        return replace(scene, asked=_with(pod, vgpu.USE_TYPE, ""))
    if "" in pod.annotations.get(vgpu.NOUSE_TYPE, "none").split(","):
        return replace(scene, asked=_of_cards(_with(pod, vgpu.NOUSE_TYPE, ""), ()))
    return scene


def _parts_of_words(scene: Scene) -> Scene:
    pod = scene.asked
    if pod is None:
        return scene
    use, nouse = (items(pod.annotations.get(key)) for key in (vgpu.USE_TYPE, vgpu.NOUSE_TYPE))
    if not use and not nouse:
        return scene
    allowed = [
        card.id for card in _cards(scene) if (not use or _has_part(card.type, use)) and not _has_part(card.type, nouse)
    ]
    return replace(scene, asked=_of_cards(_with(_with(pod, vgpu.USE_TYPE, ""), vgpu.NOUSE_TYPE, ""), allowed))


def _has_part(name: str, parts: Iterable[str]) -> bool:
    return any(part.upper() in name.upper() for part in parts)


def _of_cards(pod: Pod, ids: Iterable[str]) -> Pod:
    """Return the pod, on these cards alone."""
    wanted = items(pod.annotations.get(vgpu.USE_ID))
    allowed = [card for card in ids if not wanted or card in wanted]
    return _with(pod, vgpu.USE_ID, ",".join(allowed) or "none")


def _with(pod: Pod, key: str, value: str) -> Pod:
    """Return the pod with an annotation, without it for ''."""
    annotations = {name: text for name, text in pod.annotations.items() if name != key}
    return replace(pod, annotations=annotations | {key: value} if value else annotations)


def _whole_by_size(scene: Scene) -> Scene:
    pod, names = scene.asked, scene.conf.devices.vgpu
    sizes = {card.memory for card in _cards(scene)}
    if pod is None or len(sizes) != 1 or names.default_memory:
        return scene
    (size,) = sizes

    def sized(container: Container) -> Container:
        limits, part = container.limits, container.limits.get(names.percentage)
        asks_all = names.number in limits and not int(limits.get(names.memory, "0")) if part is None else part == "100"
        if not asks_all:
            return container
        rest = {name: amount for name, amount in limits.items() if name != names.percentage}
        return replace(container, limits=rest | {names.memory: str(size)})

    return replace(scene, asked=replace(pod, containers=tuple(sized(each) for each in pod.containers)))


def _kept_geometry(scene: Scene) -> Scene:
    return _recut(scene, lambda group, used: None if used else group)


def _used_kinds(scene: Scene) -> Scene:
    def only(group: MigGroup, used: Collection[str]) -> MigGroup | None:
        if not used:
            return None
        return replace(
            group,
            instances=tuple(
                each if each.name in used else replace(each, memory=0)  # keeps its positions, is never large enough
                for each in group.instances
            ),
        )

    return _recut(scene, only)


def _recut(scene: Scene, offered: Callable[[MigGroup, Collection[str]], MigGroup | None]) -> Scene:
    """Give each card that Volcano takes for cut a model of its own, with the one group that is left of its geometries.

    ``offered`` is given the card's group and the names of the instances in use there; None leaves the card as it is.
    """
    vgpu_conf, cards = scene.conf.devices.vgpu, _cards(scene)
    models: list[MigModel] = []
    register = ""
    for at, card in enumerate(cards):
        number, kinds = scene.mig[at] if scene.mig and at < len(scene.mig) else (-1, ())
        model = next((each for each in vgpu_conf.geometries if any(name in card.type for name in each.models)), None)
        group = None
        if number >= 0 and model is not None:
            group = offered(model.groups[number], {name for name, _ in kinds})
        name = card.type
        if group is not None:
            name = f"{card.type} cut {at}."
            models.append(MigModel((name,), (group,)))
        register += f"{card.id},{card.slots},{card.memory},{name},{str(card.healthy).lower()},{card.mode}:"
    if not models:
        return scene
    node = replace(scene.node, annotations=scene.node.annotations | {vgpu.REGISTER: register})
    devices = replace(scene.conf.devices, vgpu=replace(vgpu_conf, geometries=(*models, *vgpu_conf.geometries)))
    return replace(scene, node=node, conf=replace(scene.conf, devices=devices))


def _cards(scene: Scene) -> tuple[Card, ...]:
    return vgpu.read_register(scene.node.annotations.get(vgpu.REGISTER, ""), scene.node.name)


def _not_offered(scene: Scene) -> Scene:
    gone = {
        f"{hami_vnpu.REGISTER}{chip.word}"
        for chip in scene.conf.devices.chips
        if scene.node.allocatable.get(chip.resource, "0") == "0"
    }
    annotations = {key: value for key, value in scene.node.annotations.items() if key not in gone}
    return replace(scene, node=replace(scene.node, annotations=annotations))


def _unhealthy_given(scene: Scene) -> Scene:
    annotations = dict(scene.node.annotations)
    for key, text in annotations.items():
        if key.startswith(hami_vnpu.REGISTER):
            chips = msgspec.json.decode(text, type=list[dict[str, Any]])
            if not all(chip.get("health") for chip in chips):
                annotations[key] = msgspec.json.encode([{**chip, "health": True} for chip in chips]).decode()
    return replace(scene, node=replace(scene.node, annotations=annotations))


def _by_memory_alone(scene: Scene) -> Scene:
    def uncounted(chip: VnpuChip) -> VnpuChip:
        templates = tuple(replace(template, ai_cores=0, ai_cpus=0) for template in chip.templates)
        return replace(chip, ai_cores=0, ai_cpus=0, templates=templates)

    chips = tuple(uncounted(chip) for chip in scene.conf.devices.chips)
    return replace(scene, conf=replace(scene.conf, devices=replace(scene.conf.devices, chips=chips)))


def _first_containers(scene: Scene) -> Scene:
    standing = {}
    for ref, pod in scene.standing.items():
        for key in map(hami_vnpu.allocated, hami_vnpu.words_held(pod.annotations)):
            # Volcano takes the ; before the first device of a later container for a part of its id.
            first, *others = pod.annotations[key].split(";")
            known = ";".join([first, *(":".join(slot.split(":")[1:]) for slot in others)])
            pod = _with(pod, key, known)
        standing[ref] = pod
    return replace(scene, standing=standing)


GPU_SHARE = (
    Deviation("gpu-share-policy", "the policy chooses the card for gpu-memory", _without_policy),
    Deviation("ended-pods", "a pod that has ended holds no card", _ended_counted),
)
VGPU = (
    Deviation("node-without-cores", "a node that does not offer vgpu-cores is a vGPU node", _without_cards),
    Deviation("each-device-charged", "every device in a pod's annotation is charged", _once_a_card),
    Deviation("both-type-lists", "use-gputype and nouse-gputype count together", _only_one_list),
    Deviation("empty-type-items", "an empty item of a list of types means nothing", _empty_items),
    Deviation("types-by-words", "a type is matched by whole words first", _parts_of_words),
)
MIG = (
    Deviation("whole-mig-card", "all of a MIG card is its one instance, though it has less memory", _whole_by_size),
    Deviation("empty-mig-card", "a card that nobody is on any more takes any geometry", _kept_geometry),
    Deviation("all-mig-instances", "all instances of a card's geometry are offered", _used_kinds),
)
HAMI_VNPU = (
    Deviation("chips-not-offered", "chips that the kubelet does not offer are known, and not given", _not_offered),
    Deviation("unhealthy-chips", "an unhealthy chip is not given", _unhealthy_given),
    Deviation("ai-cores-and-cpus", "AI cores and AI CPUs of templates count, not memory alone", _by_memory_alone),
    Deviation("each-container-charged", "devices of every container of a pod are charged", _first_containers),
)
ALL = (Deviation("node-lock", "a lock on the node delays the hand-over, not the decision", _locked),)

DEVIATIONS = (*GPU_SHARE, *VGPU, *MIG, *HAMI_VNPU, *ALL)
"""All of them. Where several concern a scene they are applied in this order."""

UNSCORED = frozenset({"vgpu-spread-score-zero"})
"""Defects that touch nothing but the score: all else of such a step is compared."""
