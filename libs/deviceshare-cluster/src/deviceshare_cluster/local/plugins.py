"""What device plugins do on the nodes of a local cluster, where there are none: they serve each pod at once."""

from collections.abc import Mapping

from deviceshare.families import FAMILIES


def served(annotations: Mapping[str, str]) -> dict[str, str]:
    """Return what device plugins write on a pod that is bound with these annotations."""
    written: dict[str, str] = {}
    for family in FAMILIES if annotations else ():
        written |= family.plugin.once_served(annotations)
    return written
