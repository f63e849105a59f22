"""Putting manifests into the local cluster: what is wrong with one is said, the rest goes on."""

from collections.abc import Callable
from typing import NamedTuple

from deviceshare.model import Problem

from deviceshare_cluster.local.cluster import LocalCluster
from deviceshare_cluster.local.manifests import Manifest, Manifests
from deviceshare_cluster.local.writer import Applied


class Loaded(NamedTuple):
    """What became of manifests that were loaded."""

    results: list[tuple[Manifest, Applied]]
    """All that could be read, also what the cluster refused."""
    rejected: list[Problem]
    """What could not be read, then what the cluster refused."""
    warnings: list[str]


async def load_manifests(cluster: LocalCluster, manifests: Manifests, say: Callable[[str], None]) -> Loaded:
    """Apply manifests; ``say`` gets one line for each warning and for each thing that was rejected.

    Nothing is said until all of it is done, so that who tries again says nothing twice. Raises ClusterError.
    """
    applied = await cluster.load([manifest.object for manifest in manifests.manifests])
    loaded = Loaded(list(zip(manifests.manifests, applied, strict=True)), list(manifests.problems), [])
    for problem in manifests.problems:
        say(f"rejected: {problem}")
    for manifest, result in loaded.results:
        for warning in result.warnings:
            loaded.warnings.append(warning)
            say(f"warning: {warning}")
        if result.problem is not None:
            loaded.rejected.append(result.problem)
            say(f"rejected: {result.problem} ({manifest.source})")
    return loaded
