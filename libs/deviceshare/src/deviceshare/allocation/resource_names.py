"""Names of device resources, and corrections of misspelt names."""

from collections.abc import Iterable
from difflib import get_close_matches

from deviceshare.conf import SchedulerConf
from deviceshare.families import device_resources


def device_names(conf: SchedulerConf) -> frozenset[str]:
    """Return the resources by which devices are requested, including those that the node offers itself."""
    return device_resources(conf) | conf.devices.resources()


def nearest(resource: str, known: Iterable[str]) -> str:
    """Return the known name that is most similar to a misspelt one, '' if none is similar.

    Names of the same domain are compared by the part after the domain.
    """
    names = {name.lower(): name for name in known if name != resource}
    domain, slash, _ = resource.lower().rpartition("/")
    same = {name.removeprefix(domain + slash): name for name in names if slash and name.startswith(domain + slash)}
    wanted = resource.lower()
    if near := get_close_matches(wanted.removeprefix(domain + slash), same, n=1, cutoff=0.75):
        return names[same[near[0]]]
    near = get_close_matches(wanted, names, n=1, cutoff=0.85)
    return names[near[0]] if near else ""
