"""A cluster of all device families at once, eight cards a node, and pods of every kind for it. Plain manifests."""

from collections.abc import Iterator
from typing import Any

import yaml
from deviceshare_lab.clusters import manifests, objects
from deviceshare_lab.clusters.manifests import FAMILIES, PodKind
from support.example_cluster import EXAMPLES

Object = dict[str, Any]

CARDS = 8
DEVICE_CONFIG = EXAMPLES / "configmaps" / "vgpu-and-vnpu-device-config.yaml"
CONFIGURATION = objects.conf(
    manifests.ARGUMENTS
    | {
        "HAMiGPUEnable": "true",
        "SchedulePolicy": "spread",
        "KnownGeometriesCMName": "vgpu-and-vnpu-device-config",
    },
    plugins=manifests.PLUGINS,
)
GANG = 4
SCHEDULER = manifests.SCHEDULER
_FAMILIES = ("hami-core", "mig", "gpu-number", "hami-vnpu", "mindcluster", "mps")
_KINDS = tuple(
    FAMILIES[family][number]
    for family, number in (
        ("hami-core", 0),
        ("mig", 0),
        ("gpu-share", 0),
        ("hami-vnpu", 0),
        ("mindcluster", 1),
        ("mps", 0),
        ("hami-core", 1),
        ("mig", 1),
        ("gpu-number", 0),
        ("hami-vnpu", 1),
        ("mindcluster", 2),
        ("mps", 1),
        ("gpu-share", 1),
        ("mindcluster", 0),
    )
)
TASK = dict(FAMILIES["mindcluster"][0].labels)
"""Labels of pods that ask AI cores."""


def nodes(count: int) -> list[Object]:
    """Return so many nodes, of one family after the other; a third of the GPU nodes shares their memory."""
    made = []
    for number in range(count):
        family, shares = _FAMILIES[number % len(_FAMILIES)], number // len(_FAMILIES) % 3 == 0
        family = "gpu-share" if family == "gpu-number" and shares else family
        made.append(manifests.node(f"node-{number:04d}", family, number, CARDS))
    return made


def modes(count: int) -> dict[str, str]:
    """Return how the vGPU nodes among so many share their cards, by name."""
    registers = {
        node["metadata"]["name"]: node["metadata"]["annotations"].get("volcano.sh/node-vgpu-register", "")
        for node in nodes(count)
    }
    return {name: register.rstrip(":").rpartition(",")[2] for name, register in registers.items() if register}


def config_maps(count: int) -> list[Object]:
    """Return the configurations of the scheduler and of devices, and what ClusterD says of so many nodes' chips."""
    data = {"volcano-scheduler.conf": CONFIGURATION}
    scheduler = objects.config_map("volcano-scheduler-configmap", "volcano-system", data)
    return [scheduler, yaml.safe_load(DEVICE_CONFIG.read_text()), manifests.chips_of(nodes(count), CARDS)]


def workloads(first: int, count: int, namespace: str) -> Iterator[Object]:
    """Yield so many pods, numbered from ``first``, of one kind after the other; every third gang comes as a PodGroup.

    A PodGroup comes before its pods, all of which are of one kind.
    """
    number = first
    while number < first + count:
        kind = _KINDS[number // GANG * 5 % len(_KINDS)]
        if number // GANG % 3 == 0 and number % GANG == 0 and number + GANG <= first + count:
            group = f"gang-{number}"
            yield objects.pod_group(group, GANG, namespace=namespace)
            for member in range(number, number + GANG):
                yield _pod(member, namespace, kind, group)
            number += GANG
        else:
            yield _pod(number, namespace, _KINDS[number % len(_KINDS)], "")
            number += 1


def pod(name: str, namespace: str, limits: dict[str, str], annotations: dict[str, str], scheduler: str) -> Object:
    """Return a pod of one container that tolerates all taints."""
    written = {"namespace": namespace, "scheduler": scheduler, "annotations": annotations}
    return objects.pod(name, limits, **written, **objects.TOLERANT)


def _pod(number: int, namespace: str, kind: PodKind, group: str) -> Object:
    made = manifests.pod(f"pod-{number:05d}", kind, group=group)
    made["metadata"]["namespace"] = namespace
    if number % 10 == 7:  # the slot of a container is its position
        made["spec"]["containers"].insert(0, {"name": "beside", "image": "busybox"})
    return made
