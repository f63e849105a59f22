"""Ascend vNPU, HAMi's mode."""

from collections.abc import Callable
from typing import Any

import msgspec
from deviceshare.conf import VnpuChip
from deviceshare.formats import hami_vnpu
from msgspec.structs import replace

from deviceshare_cli.conformance.cases import Container
from deviceshare_cli.conformance.deviations.base import Deviation, with_annotation
from deviceshare_cli.conformance.scene import Scene


def _unhealthy_given(scene: Scene) -> Scene:
    annotations = dict(scene.node.annotations)
    for key, text in annotations.items():
        if key.startswith(hami_vnpu.REGISTER):
            try:
                chips = msgspec.json.decode(text, type=list[dict[str, Any]])
            except msgspec.DecodeError:
                return scene
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
    existing = {}
    for ref, pod in scene.existing.items():
        for key in map(hami_vnpu.allocated, hami_vnpu.words_held(pod.annotations)):
            # Volcano takes the ; before the first device of a later container for a part of its id.
            first, *others = pod.annotations[key].split(";")
            known = ";".join([first, *(":".join(slot.split(":")[1:]) for slot in others)])
            pod = with_annotation(pod, key, known)
        existing[ref] = pod
    return replace(scene, existing=existing)


def _chip_for_no_memory(scene: Scene) -> Scene:
    def read(container: Container) -> Container:
        limits = dict(container.limits)
        for chip in scene.conf.devices.chips:
            if limits.get(chip.memory_resource) == "0":
                del limits[chip.memory_resource]
                limits.setdefault(chip.resource, "1")
        return replace(container, limits=limits)

    return _with_containers(scene, read)


def _one_for_none(scene: Scene) -> Scene:
    names = {chip.resource for chip in scene.conf.devices.chips}

    def read(container: Container) -> Container:
        limits = {name: "1" if name in names and each == "0" else each for name, each in container.limits.items()}
        return replace(container, limits=limits)

    return _with_containers(scene, read)


def _with_containers(scene: Scene, read: Callable[[Container], Container]) -> Scene:
    pod = scene.asked
    if pod is None:
        return scene
    return replace(scene, asked=replace(pod, containers=tuple(map(read, pod.containers))))


def _without_init_containers(scene: Scene) -> Scene:
    pod, chips = scene.asked, scene.conf.devices.chips
    names = {name for chip in chips for name in (chip.resource, chip.memory_resource, chip.core_resource)}
    if pod is None or not any(names & each.limits.keys() for each in pod.init_containers):
        return scene
    return replace(scene, asked=replace(pod, init_containers=()))


def _any_mode(scene: Scene) -> Scene:
    pod = scene.asked
    if pod is None or pod.annotations.get(hami_vnpu.MODE, hami_vnpu.HAMI_CORE) == hami_vnpu.HAMI_CORE:
        return scene
    return replace(scene, asked=with_annotation(pod, hami_vnpu.MODE, ""))


HAMI_VNPU = (
    Deviation("unhealthy-chips", "an unhealthy chip is not given", _unhealthy_given, "hami-unhealthy-allocated"),
    Deviation("ai-cores-and-cpus", "AI cores and AI CPUs of templates count, not memory alone", _by_memory_alone),
    Deviation(
        "each-container-charged",
        "devices of every container of a pod are charged",
        _first_containers,
        "hami-multi-container-undercount",
    ),
    Deviation("vnpu-zero-memory", "0 MiB alone ask no chip", _chip_for_no_memory),
    Deviation("vnpu-zero-chips", "0 chips are refused", _one_for_none),
    Deviation("vnpu-init-containers", "init containers ask chips as well", _without_init_containers),
    Deviation("vnpu-mode-values", "a vnpu-mode that there is not is refused", _any_mode),
)
