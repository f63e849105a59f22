"""The request of a pod for Ascend 310P chips, and its template.

Rules: the table of templates in Volcano's guide to device virtualization, and Volcano
pkg/scheduler/api/devices/ascend/mindcluster/ascend310p/vnpu (utils.go, device_manage.go). Deviations from
Volcano: a ``vnpu-dvpp`` that is not in the table is refused, all containers and init containers count, and pods
without the label, to which Volcano silently gives no devices, are refused.
"""

from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from deviceshare.conf import SchedulerConf
from deviceshare.families import common
from deviceshare.families.mindcluster import wire
from deviceshare.families.mindcluster.wire import CHIP_CORES, CORES, NO, NULL, YES, Template
from deviceshare.families.protocol import CardDemand, ContainerShare, Demand
from deviceshare.model import INIT, ContainerGrant, DeviceGrant, PodRequest, RequestError
from deviceshare.state import pod_resources

COUNTS = f"1, 2, 4 or a multiple of {CHIP_CORES}"

_LOW_TEMPLATES = {
    (1, NULL): wire.VIR01,
    (2, NULL): wire.VIR02_1C,
    (4, NULL): wire.VIR04_3C,
    (4, YES): wire.VIR04_4C_DVPP,
    (4, NO): wire.VIR04_3C_NDVPP,
}
_HIGH_TEMPLATES = _LOW_TEMPLATES | {(2, NULL): wire.VIR02, (4, NULL): wire.VIR04}
"""Templates by AI cores and wire.DVPP; a second template is the downgrade of the first."""

_INIT_PARAMS, _STATIC = "init-params", "presetVirtualDevice"


class MindClusterDemand(Demand, frozen=True):
    """A demand for ``asked`` AI cores; ``shares`` are those of the containers.

    With ``templates``, a part of one chip by the first template that fits; otherwise whole chips.
    """

    asked: int = 0
    templates: tuple[Template, ...] = ()


def chip_demand(family: str, ask: PodRequest, conf: SchedulerConf) -> MindClusterDemand | None:
    """Return the demand of a pod, or None.

    Raises:
        RequestError: no template has the requested amount; the error names the templates.
    """
    if not any(container.get(CORES) is not None for container in (*ask.containers, *ask.init_containers)):
        return None
    asked = cores_asked(ask)
    labels = dict(ask.labels)
    if conf.configurations.get(_INIT_PARAMS, {}).get(_STATIC, "").strip().lower() == "true":
        raise RequestError(
            "volcano-scheduler.conf",
            f"configurations[{_INIT_PARAMS}].arguments[{_STATIC}]",
            "true",
            f'"false" for pods that ask {CORES}: with "true" chips are partitioned in advance, not for pods',
        )
    if labels.get(wire.TASK) != wire.TASK_310P:
        expected = f"{wire.TASK_310P}: without it a request for {CORES} does not count"
        raise RequestError("Pod", f"metadata.labels[{wire.TASK}]", labels.get(wire.TASK, ""), expected)
    if asked and asked % CHIP_CORES == 0:
        templates: tuple[Template, ...] = ()
        cards = CardDemand(count=asked // CHIP_CORES, memory=0, cores=CHIP_CORES)
    else:
        templates = _templates(asked, labels.get(wire.LEVEL, ""), labels.get(wire.DVPP, NULL))
        cards = CardDemand(count=1, memory=0, cores=asked)
    return MindClusterDemand(family=family, cards=(cards,), asked=asked, templates=templates, shares=asking(ask))


def _templates(asked: int, level: str, dvpp: str) -> tuple[Template, ...]:
    table = _HIGH_TEMPLATES if level == wire.HIGH else _LOW_TEMPLATES
    allowed = [value for value in wire.DVPP_VALUES if (asked, value) in table]
    if not allowed:
        field = f"spec.containers[*].resources.limits[{CORES}]"
        raise RequestError("Pod", field, asked, f"{COUNTS} in all: an Ascend 310P chip is cut into no other parts")
    if dvpp not in allowed:
        unit = "AI core" if asked == 1 else "AI cores"
        raise RequestError("Pod", f"metadata.labels[{wire.DVPP}]", dvpp, f"{' or '.join(allowed)} for {asked} {unit}")
    return tuple(dict.fromkeys((table[asked, dvpp], _LOW_TEMPLATES[asked, dvpp])))


def cores_asked(ask: PodRequest) -> int:
    """Return the AI cores of a pod: the larger of its largest init container and the sum of the others."""
    return dict(pod_resources(ask, frozenset())).get(CORES, 0)


def asking(ask: PodRequest) -> tuple[ContainerShare, ...]:
    """Return the AI cores of the containers that request some, in the order in which they start."""
    return common.shares_of(common.start_order(ask), CORES)


def deal(family: str, shares: Iterable[ContainerShare], chips: Sequence[DeviceGrant]) -> tuple[ContainerGrant, ...]:
    """Return the grant of each container: its part of the pod's devices, one after the other.

    An init container ends before the next containers start, so they get the same devices.
    """
    grants = []
    taken = 0
    for share in shares:
        devices = tuple(_cut(chips, taken, taken + share.amount))
        grants.append(ContainerGrant(share.container, share.position, family, devices, share.stage))
        if share.stage != INIT:
            taken += share.amount
    return tuple(grants)


def _cut(chips: Sequence[DeviceGrant], start: int, end: int) -> Iterator[DeviceGrant]:
    """Yield the devices with the AI cores from ``start`` to ``end``, counted over all chips."""
    before = 0
    for chip in chips:
        cores = min(end, before + chip.cores) - max(start, before)
        if cores > 0:
            yield replace(chip, cores=cores)
        before += chip.cores
