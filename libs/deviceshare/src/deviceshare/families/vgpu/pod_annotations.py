"""The annotations of a pod with vGPUs, written for the device plugin and read after a restart.

The plugin serves ``spec.containers`` only. The devices of init containers and sidecars are in an annotation that only
deviceshare reads.
"""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from deviceshare.families.vgpu import wire
from deviceshare.model import INIT, SIDECAR, ContainerGrant, ContainerRequest, PodRequest

_USUAL = ("volcano.sh/vgpu-number", "volcano.sh/vgpu-memory")
"""Volcano writes a slot for each container with one of these."""


def write(
    grants: Sequence[ContainerGrant],
    node: str,
    containers: Sequence[str],
    init_containers: Sequence[str],
    now: float,
) -> dict[str, str]:
    """Return the annotations for these grants; ``now`` in unix seconds."""
    mains = [grant for grant in grants if not grant.stage]
    inits = [grant for grant in grants if grant.stage]
    ids, seconds = wire.write_ids(mains, len(containers)), str(int(now))
    annotations = {
        wire.NODE: node,
        wire.TIME: seconds,
        wire.IDS: ids,
        wire.TO_ALLOCATE: ids,
        wire.BIND_PHASE: wire.ALLOCATING,
        wire.BIND_TIME: seconds,
    }
    if inits:
        slots = max(len(init_containers), *(grant.position + 1 for grant in inits))
        annotations[wire.INIT_IDS] = wire.write_ids(inits, slots)
    return annotations


def read(
    annotations: Mapping[str, str], ask: PodRequest, pod: str, family: str, *, is_mig: bool
) -> list[ContainerGrant]:
    """Return the grants of a pod: MIG instances if ``is_mig``, else all others.

    ``devices-to-allocate`` is not read, since the plugin erases devices from it. Devices beyond the pod's containers
    count as well.

    Raises:
        FormatError: an annotation is malformed.
    """
    ids, init_ids = annotations.get(wire.IDS, ""), annotations.get(wire.INIT_IDS, "")
    if is_mig and "[" not in ids and "[" not in init_ids:
        return []  # as for most pods: the other families read the same annotations, and report their errors
    grants = []
    slots = wire.read_ids(ids, pod)
    positions = _positions(ask, len(slots))
    for at, devices in enumerate(slots):
        position = positions[at] if at < len(positions) else at
        grants.append(ContainerGrant(_name(ask.containers, position), position, family, tuple(devices)))
    for position, devices in enumerate(wire.read_ids(init_ids, pod, wire.INIT_IDS)):
        stays = position < len(ask.init_containers) and ask.init_containers[position].sidecar
        name = _name(ask.init_containers, position)
        grants.append(ContainerGrant(name, position, family, tuple(devices), SIDECAR if stays else INIT))
    found = []
    for grant in grants:
        given = tuple(device for device in grant.devices if bool(device.detail) == is_mig)
        if given:
            found.append(replace(grant, devices=given))
    return found


def _positions(ask: PodRequest, slots: int) -> Sequence[int]:
    """Return the container of each slot, as indexes. Volcano writes no slot for a container without a request."""
    every = range(len(ask.containers))
    if slots >= len(every):
        return every
    asking = [at for at in every if any(ask.containers[at].get(name) is not None for name in _USUAL)]
    return asking if len(asking) == slots else every


def _name(containers: Sequence[ContainerRequest], position: int) -> str:
    return containers[position].name if position < len(containers) else ""
