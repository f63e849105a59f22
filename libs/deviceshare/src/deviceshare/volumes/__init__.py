"""Volumes of pods: which nodes they allow, by the rules of kube-scheduler's four volume plugins.

Reading order: :mod:`.catalog` (the claims, volumes and classes of the cluster), :mod:`.placed_volumes` (what the pods
on nodes use), :mod:`.node_labels` (which nodes match the terms of a volume), :mod:`.cluster_volumes` (all of these),
then one module for each plugin: :mod:`.restrictions` (VolumeRestrictions), :mod:`.limits` (NodeVolumeLimits),
:mod:`.binding` (VolumeBinding) with :mod:`.matching` (unbound claims), and :mod:`.zones` (VolumeZone).

The bindings that were decided count before facts show them (:meth:`.Catalog.assume`).

Not evaluated: storage capacity (CSIStorageCapacity), volumes of nodes that no pod uses (VolumeAttachment), and the
migration of in-tree volumes to CSI.
"""

from deviceshare.volumes.binding import Binding as Binding
from deviceshare.volumes.catalog import Catalog as Catalog
from deviceshare.volumes.cluster_volumes import ClusterVolumes as ClusterVolumes
from deviceshare.volumes.limits import Limits as Limits
from deviceshare.volumes.reasons import Excluded as Excluded, Rejection as Rejection
from deviceshare.volumes.restrictions import Restrictions as Restrictions
from deviceshare.volumes.zones import Zones as Zones
