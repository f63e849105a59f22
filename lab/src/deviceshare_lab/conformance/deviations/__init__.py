"""Deliberate differences from Volcano's answers.

A deviation replaces the input of a scene by what Volcano reads. It explains a difference only if our answer for the
replaced input is exactly as recorded: a deviation cannot hide another difference. ``docs/compatibility.md`` states the
benefit of each deviation.
"""

from collections.abc import Callable, Sequence
from itertools import combinations

from msgspec.structs import replace

from deviceshare_lab.conformance.deviations.base import Deviation as Deviation, as_volcano as as_volcano
from deviceshare_lab.conformance.deviations.gpu_share import GPU_SHARE
from deviceshare_lab.conformance.deviations.hami_vnpu import HAMI_VNPU
from deviceshare_lab.conformance.deviations.mig import MIG
from deviceshare_lab.conformance.deviations.mindcluster import MIND_CLUSTER
from deviceshare_lab.conformance.deviations.vgpu import VGPU
from deviceshare_lab.conformance.scene import Scene

MAX_TOGETHER = 4
"""The maximum number of deviations that explain one difference: more could hide it by chance."""


def _locked(scene: Scene) -> Scene:
    return replace(scene, closed=scene.locked)


NODE_LOCK = Deviation("node-lock", "a lock on the node delays the handoff, not the decision", _locked)

DEVIATIONS = (*GPU_SHARE, *VGPU, *MIG, *HAMI_VNPU, *MIND_CLUSTER, NODE_LOCK)
"""All deviations, in the order in which they are applied to a scene."""


def able_in(scene: Scene) -> Sequence[Deviation]:
    """Return the deviations that change a scene, alone or after other deviations."""
    able = []
    read = scene
    for deviation in DEVIATIONS:
        other = deviation.as_volcano(read)
        if other != read or deviation.as_volcano(scene) != scene:
            able.append(deviation)
        read = other
    return able


def explanation(able: Sequence[Deviation], explains: Callable[[Sequence[Deviation]], bool]) -> Sequence[Deviation]:
    """Return the smallest set of deviations that explains a difference, () if there is none.

    ``able``: the deviations that apply to the scene. ``explains``: whether nothing differs once some of them, in their
    order, replace the input by what Volcano reads.
    """
    for size in range(1, min(len(able), MAX_TOGETHER) + 1):
        for some in combinations(able, size):
            if explains(some):
                return some
    return ()


UNSCORED = frozenset({"vgpu-spread-score-zero"})
"""Defects that affect only the score: the rest of the step is compared."""
