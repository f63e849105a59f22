"""Loading manifests into the local cluster; a manifest that is rejected stops none of the others."""

from collections.abc import Callable
from typing import NamedTuple

from deviceshare_localcluster.cluster import LocalCluster
from deviceshare_localcluster.manifests import Manifest, Manifests
from deviceshare_localcluster.writer import Applied


class Rejected(NamedTuple):
    """The object or file that was rejected, and a message that names it, its field, and the line and column of it."""

    subject: str
    message: str


class Loaded(NamedTuple):
    """The results of loading manifests."""

    results: list[tuple[Manifest, Applied]]
    """All manifests that could be read, including those that the cluster refused."""
    rejected: list[Rejected]
    """Manifests that could not be read, then objects that the cluster refused."""
    warnings: list[str]


async def load_manifests(cluster: LocalCluster, manifests: Manifests, report: Callable[[str], None]) -> Loaded:
    """Apply manifests; ``report`` gets one line for each warning and for each manifest that was rejected.

    Calls ``report`` only after all manifests are applied, so that a caller that retries reports nothing twice. Raises
    ClusterError.
    """
    applied = await cluster.load([manifest.object for manifest in manifests.manifests])
    rejected = [Rejected(problem.subject, str(problem)) for problem in manifests.problems]
    loaded = Loaded(list(zip(manifests.manifests, applied, strict=True)), rejected, [])
    for _, message in rejected:
        report(f"rejected: {message}")
    for manifest, result in loaded.results:
        for field, text in result.warnings:
            loaded.warnings.append(manifest.located(field, text))
            report(f"warning: {loaded.warnings[-1]}")
        if (problem := result.problem) is not None:
            loaded.rejected.append(Rejected(problem.subject, manifest.located(problem.field, str(problem))))
            report(f"rejected: {loaded.rejected[-1].message}")
    return loaded
