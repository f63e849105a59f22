"""The slots of a pod's devices in HAMi's annotations: of its init containers, then of its containers."""

from collections.abc import Callable, Iterable, Sequence

from deviceshare.families.common import Container, start_order
from deviceshare.model import ContainerGrant, ContainerRequest, DeviceGrant, PodRequest


def slots_of(
    grants: Iterable[ContainerGrant], containers: Sequence[str], init_containers: Sequence[str]
) -> list[list[DeviceGrant]]:
    """Return the devices of each init container and each container; the arguments are those of ``annotations``."""
    slots: list[list[DeviceGrant]] = [[] for _ in (*init_containers, *containers)]
    for grant in grants:
        slots[grant.position + (0 if grant.stage else len(init_containers))] += grant.devices
    return slots


def owners(ask: PodRequest, slots: int, asks: Callable[[ContainerRequest], bool] = lambda _: True) -> list[Container]:
    """Return for each slot of a pod its container, as stage, position and request.

    HAMi and deviceshare write a slot for each init container and each container, HAMi 2.8 and older for each container,
    Volcano for each container that ``asks``. Further slots count for the last container.
    """
    every = start_order(ask)
    mains = every[len(ask.init_containers) :]
    written = every
    if slots != len(every):
        written = mains if slots == len(mains) else [container for container in mains if asks(container[2])]
    last: Container = [("", 0, ContainerRequest("", ())), *mains][-1]
    return [*written[:slots], *[last] * (slots - len(written))]
