"""The volumes of one pod class: which nodes they exclude, and why no node is feasible."""

from collections.abc import Sequence

from deviceshare.conf import SchedulerConf
from deviceshare.model import PodRequest, Refusal, VolumeBinding
from deviceshare.volumes import Binding, ClusterVolumes, Excluded, Limits, Restrictions, Zones


class VolumeFilter:
    """The enabled plugins for volumes, in kube-scheduler's order."""

    def __init__(self, request: PodRequest, conf: SchedulerConf, volumes: ClusterVolumes) -> None:
        enabled, catalog, placed = conf.predicates, volumes.catalog, volumes.placed
        self._volumes = volumes
        self._restrictions = Restrictions(request, catalog, placed) if enabled.volume_restrictions else None
        self._limits = Limits(request, catalog, placed) if enabled.volume_limits else None
        self._binding = Binding(request, catalog, volumes.labels, volumes.unbound) if enabled.volume_binding else None
        self._zones = Zones(request, catalog, volumes.labels) if enabled.volume_zone else None
        self._static: Sequence[Excluded] = ()
        self._version: tuple[int, int, int] | None = None
        """That of ``_static``: what the binding of volumes and zones exclude."""

    def rejection(self) -> Refusal | None:
        """Return why no node is feasible, whatever node it is, or None."""
        for plugin in (self._restrictions, self._binding, self._zones, self._limits):
            rejection = plugin.rejection() if plugin is not None else None
            if rejection is not None:
                return Refusal(code="VolumeNotUsable", text=rejection.text, nodes=0)
        return None

    @property
    def exclusive(self) -> bool:
        """Whether the pod uses a volume that one pod of the cluster may use at a time, or binds one."""
        restricted = self._restrictions is not None and self._restrictions.exclusive
        return restricted or (self._binding is not None and bool(self._binding.delayed))

    def bindings(self, row: int) -> tuple[VolumeBinding, ...]:
        """Return how the unbound claims are bound on a node that fits."""
        return self._binding.bindings(row) if self._binding is not None else ()

    def excluded(self) -> Sequence[Excluded]:
        """Return the excluded nodes; a node may have several reasons."""
        rows, assumed = self._volumes.labels.rows, 0
        if self._binding is not None and self._binding.delayed:
            assumed = self._volumes.catalog.assumed_version
        version = (*self._volumes.static_version, assumed)
        if self._version != version:
            of_binding = self._binding.excluded() if self._binding is not None else ()
            of_zones = self._zones.excluded() if self._zones is not None else ()
            self._static, self._version = (*of_binding, *of_zones), version
        return (
            *(self._restrictions.excluded(rows) if self._restrictions is not None else ()),
            *(self._limits.excluded(rows) if self._limits is not None else ()),
            *self._static,
        )
