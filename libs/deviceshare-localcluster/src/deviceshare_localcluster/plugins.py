"""Simulation of device plugins on the nodes of a local cluster: each pod is served when it is bound.

Adds the annotations that plugins add, such as the devices that MindCluster's plugin creates. Keeps annotations that
plugins would erase or overwrite, for inspection; an annotation of deviceshare marks the pod as served.
"""

from collections.abc import Mapping

from deviceshare.families import FAMILIES, SERVED


def written_by_plugins(annotations: Mapping[str, str]) -> dict[str, str]:
    """Return the annotations that device plugins write when they serve a pod bound with these annotations."""
    written: dict[str, str] = {}
    for family in FAMILIES if annotations else ():
        written |= family.plugin.once_served(annotations)
    return written


def served(annotations: Mapping[str, str]) -> dict[str, str]:
    """Return the annotations to add to a pod bound with these annotations."""
    written = written_by_plugins(annotations)
    added = {key: value for key, value in written.items() if key not in annotations}
    return {**added, SERVED: "true"} if written else {}
