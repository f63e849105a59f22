"""What device plugins do on the nodes of a local cluster, where there are none: they serve each pod at once.

What they add to a pod is added, such as the devices that MindCluster's plugin made. What they would erase or write
over stays as the scheduler wrote it, so that it can be looked at; a mark of our own says that the pod is served.
"""

from collections.abc import Mapping

from deviceshare.families import FAMILIES, SERVED


def written_by_plugins(annotations: Mapping[str, str]) -> dict[str, str]:
    """Return what device plugins write on a pod that is bound with these annotations, when they serve it."""
    written: dict[str, str] = {}
    for family in FAMILIES if annotations else ():
        written |= family.plugin.once_served(annotations)
    return written


def served(annotations: Mapping[str, str]) -> dict[str, str]:
    """Return what is added to a pod that is bound with these annotations."""
    written = written_by_plugins(annotations)
    added = {key: value for key, value in written.items() if key not in annotations}
    return {**added, SERVED: "true"} if written else {}
