"""The plugins for volumes on a recorded cluster, each by itself."""

from collections.abc import Sequence

from deviceshare.allocation import Allocator, is_lasting
from deviceshare.conf import default_conf
from deviceshare.model import NodeFact, PodFact, PodRequest
from deviceshare.objects import decode_storage_class, decode_volume, decode_volume_claim, decode_volume_limits
from deviceshare.volumes import Binding, Excluded, Limits, Rejection, Restrictions, Zones
from msgspec.json import encode

from deviceshare_lab.conformance.kube_scheduler.recorded import Case, PluginAnswer, VolumeAnswer

RESTRICTIONS, LIMITS, BINDING, ZONES = "VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone"
PLUGINS = (RESTRICTIONS, LIMITS, BINDING, ZONES)
"""In kube-scheduler's order."""
RESOLVABLE, UNRESOLVABLE, ERROR = "Unschedulable", "UnschedulableAndUnresolvable", "Error"


class Volumes:
    """What the plugins answer for one pod with this request, whose claims are set."""

    def __init__(self, case: Case, nodes: Sequence[NodeFact], placed: Sequence[PodFact], request: PodRequest) -> None:
        allocator = Allocator(default_conf())
        for node in nodes:
            allocator.set_node(node)
        found = allocator.volumes
        for objects, decode in (
            (case.pvcs, decode_volume_claim),
            (case.pvs, decode_volume),
            (case.storageclasses, decode_storage_class),
            (case.csinodes, decode_volume_limits),
        ):
            for obj in objects:
                found.put(decode(encode(obj)))
        for pod in placed:
            allocator.hold(pod.node, pod.uid, (), (), pod.tenant)
        self._nodes = nodes
        self._rows = len(nodes)
        self._restrictions = Restrictions(request, found.catalog, found.placed)
        self._limits = Limits(request, found.catalog, found.placed)
        self._binding = Binding(request, found.catalog, found.labels)
        self._zones = Zones(request, found.catalog, found.labels)

    def rejections(self) -> dict[str, PluginAnswer]:
        """Return why plugins reject the pod as a whole, before they look at nodes."""
        found = {
            RESTRICTIONS: self._restrictions.rejection(),
            BINDING: self._binding.rejection(),
            ZONES: self._zones.rejection(),
        }
        return {name: _rejected(rejection) for name, rejection in found.items() if rejection is not None}

    def of_nodes(self, plugin: str) -> dict[str, PluginAnswer]:
        """Return what a plugin says of the nodes that it refuses."""
        if plugin in self.rejections():
            return {}
        match plugin:
            case "VolumeRestrictions":
                return self._refused(self._restrictions.excluded(self._rows))
            case "NodeVolumeLimits":
                rejection = self._limits.rejection()
                if rejection is not None:
                    return {node.name: _rejected(rejection) for node in self._nodes}
                return self._refused(self._limits.excluded(self._rows))
            case "VolumeBinding":
                return self._refused(self._binding.excluded())
        return self._refused(self._zones.excluded())

    def choices(self) -> dict[str, VolumeAnswer]:
        """Return what is bound and provisioned on each node that fits, without the namespaces of claims."""
        found = {}
        for row, node in enumerate(self._nodes):
            choice = self._binding.choice(row)
            if choice is not None and (choice.static or choice.provision):
                static = tuple(sorted((_name(claim), volume) for claim, volume in choice.static))
                found[node.name] = VolumeAnswer(static, tuple(sorted(map(_name, choice.provision))))
        return found

    def _refused(self, excluded: Sequence[Excluded]) -> dict[str, PluginAnswer]:
        found = {}
        for row, node in enumerate(self._nodes):
            reasons = [reason for reason, nodes in excluded if nodes[row]]
            if reasons:
                lasting = any(is_lasting(reason.code) for reason in reasons)
                texts = tuple(reason.text for reason in reasons)
                found[node.name] = PluginAnswer(UNRESOLVABLE if lasting else RESOLVABLE, texts)
        return found


def _rejected(rejection: Rejection) -> PluginAnswer:
    return PluginAnswer(ERROR if rejection.error else UNRESOLVABLE, (rejection.text,))


def _name(claim: str) -> str:
    return claim.partition("/")[2]
