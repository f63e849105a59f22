"""Deviations of Ascend vNPU, HAMi mode."""

from typing import Any

import msgspec
from deviceshare.families.hami_vnpu import wire
from deviceshare.families.hami_vnpu.section import VnpuChip, VnpuConf
from msgspec.structs import replace

from deviceshare_lab.conformance.cases import Pod
from deviceshare_lab.conformance.deviations.base import Deviation, of_pod, with_limits, without, without_annotations
from deviceshare_lab.conformance.scene import Scene


def _unhealthy_given(scene: Scene) -> Scene:
    annotations = dict(scene.node.annotations)
    for key, text in annotations.items():
        if key.startswith(wire.REGISTER):
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

    vnpus = scene.conf.devices.section(VnpuConf)
    devices = scene.conf.devices.having(replace(vnpus, chips=tuple(map(uncounted, vnpus.chips))))
    return replace(scene, conf=replace(scene.conf, devices=devices))


def _first_containers(scene: Scene) -> Scene:
    existing = {}
    for ref, pod in scene.existing.items():
        for key in map(wire.allocated, wire.words_held(pod.annotations)):
            # Volcano reads the ; before the first device of a later container as part of the device's id.
            first, *others = pod.annotations[key].split(";")
            known = ";".join([first, *(":".join(slot.split(":")[1:]) for slot in others)])
            pod = replace(pod, annotations=pod.annotations | {key: known})
        existing[ref] = pod
    return replace(scene, existing=existing)


@of_pod
def _chip_for_no_memory(scene: Scene, pod: Pod) -> Pod:
    def read(limits: dict[str, str]) -> dict[str, str]:
        for chip in scene.conf.devices.section(VnpuConf).chips:
            if limits.get(chip.memory_resource) == "0":
                limits = {chip.resource: "1"} | without(limits, chip.memory_resource)
        return limits

    return with_limits(pod, read)


@of_pod
def _one_for_none(scene: Scene, pod: Pod) -> Pod:
    names = {chip.resource for chip in scene.conf.devices.section(VnpuConf).chips}
    return with_limits(
        pod,
        lambda limits: {name: "1" if name in names and each == "0" else each for name, each in limits.items()},
    )


@of_pod
def _without_init_containers(scene: Scene, pod: Pod) -> Pod:
    chips = scene.conf.devices.section(VnpuConf).chips
    names = {name for chip in chips for name in (chip.resource, chip.memory_resource, chip.core_resource)}
    requesting = any(names & each.limits.keys() for each in pod.init_containers)
    return replace(pod, init_containers=()) if requesting else pod


@of_pod
def _any_mode(_: Scene, pod: Pod) -> Pod:
    known = pod.annotations.get(wire.MODE, wire.HAMI_CORE) == wire.HAMI_CORE
    return pod if known else without_annotations(pod, wire.MODE)


HAMI_VNPU = (
    Deviation("unhealthy-chips", "an unhealthy chip is not allocated", _unhealthy_given, "hami-unhealthy-allocated"),
    Deviation(
        "ai-cores-and-cpus", "AI cores, AI CPUs and memory of templates count, not memory alone", _by_memory_alone
    ),
    Deviation(
        "each-container-charged",
        "devices of every container of a pod are charged",
        _first_containers,
        "hami-multi-container-undercount",
    ),
    Deviation("vnpu-zero-memory", "0 MiB alone request no chip", _chip_for_no_memory),
    Deviation("vnpu-zero-chips", "0 chips are refused", _one_for_none),
    Deviation("vnpu-init-containers", "chips of init containers count", _without_init_containers),
    Deviation("vnpu-mode-values", "an unknown vnpu-mode is refused", _any_mode),
)
