"""Where we answer otherwise than Volcano on purpose.

A deviation says what Volcano reads in a scene where we read something else. It explains a difference only if we answer
exactly as recorded when we are given that: so it can hide nothing but itself. What a user has from each of them stands
in ``docs/compatibility.md``.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from deviceshare_cli.conformance.deviations.base import Deviation, as_volcano
from deviceshare_cli.conformance.deviations.gpu_share import GPU_SHARE
from deviceshare_cli.conformance.deviations.hami_vnpu import HAMI_VNPU
from deviceshare_cli.conformance.deviations.mig import MIG
from deviceshare_cli.conformance.deviations.mindcluster import MIND_CLUSTER
from deviceshare_cli.conformance.deviations.vgpu import VGPU
from deviceshare_cli.conformance.scene import Scene

__all__ = ["DEVIATIONS", "UNSCORED", "Deviation", "able_in", "as_volcano"]


def _locked(scene: Scene) -> Scene:
    return replace(scene, closed=scene.locked)


NODE_LOCK = Deviation("node-lock", "a lock on the node delays the hand-over, not the decision", _locked)

DEVIATIONS = (*GPU_SHARE, *VGPU, *MIG, *HAMI_VNPU, *MIND_CLUSTER, NODE_LOCK)
"""All of them. Where several concern a scene they are applied in this order."""


def able_in(scene: Scene) -> Sequence[Deviation]:
    """Return the deviations by which Volcano reads something else in a scene, or does once others are applied."""
    able = []
    read = scene
    for deviation in DEVIATIONS:
        other = deviation.as_volcano(read)
        if other != read or deviation.as_volcano(scene) != scene:
            able.append(deviation)
        read = other
    return able


UNSCORED = frozenset({"vgpu-spread-score-zero"})
"""Defects that touch nothing but the score: all else of such a step is compared."""
