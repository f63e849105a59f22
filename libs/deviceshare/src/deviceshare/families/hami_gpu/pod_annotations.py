"""The devices of a pod on a HAMi node, written for the device plugin and read after a restart."""

from collections.abc import Sequence

from deviceshare.families import common
from deviceshare.families.hami_gpu import wire
from deviceshare.model import ContainerGrant, ContainerRequest, DeviceGrant, PodRequest


def write(grants: Sequence[ContainerGrant], containers: Sequence[str], init_containers: Sequence[str]) -> str:
    """Return the slots of a pod: those of its init containers, with or without devices, and of its containers."""
    slots: list[list[DeviceGrant]] = [[] for _ in (*init_containers, *containers)]
    for grant in grants:
        slots[grant.position + (0 if grant.stage else len(init_containers))] += grant.devices
    return wire.write_slots(slots)


def read(text: str, ask: PodRequest, pod: str, family: str) -> tuple[ContainerGrant, ...]:
    """Return the grants of a pod.

    HAMi and deviceshare write a slot for each init container and each container, HAMi 2.8 and older for each container.
    Further slots count for the last container.

    Raises:
        FormatError: the annotation is malformed.
    """
    slots = wire.read_slots(text, pod)
    every = common.start_order(ask)
    mains = every[len(ask.init_containers) :]
    owners = every if len(slots) == len(every) else mains
    last: common.Container = [("", 0, ContainerRequest("", ())), *mains][-1]
    owners = [*owners[: len(slots)], *[last] * (len(slots) - len(owners))]
    return tuple(
        ContainerGrant(container.name, position, family, tuple(devices), stage)
        for (stage, position, container), devices in zip(owners, slots, strict=True)
        if devices
    )
