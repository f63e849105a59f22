"""Names of resources that no node has: what was meant."""

from collections.abc import Iterable
from difflib import get_close_matches

from deviceshare.conf.model import SchedulerConf

NEEDS_FAMILY = "huawei.com/Ascend"
"""How resources begin whose device plugins wait for annotations: an amount that counts is not enough."""

_OLD_ASCEND = "huawei.com/ascend310p"
_TODAY = "huawei.com/npu-core (MindCluster) or huawei.com/Ascend310P (HAMi)"


def never_given(resource: str, conf: SchedulerConf) -> str:
    """Return why nobody will ever give a plain resource, '' where a node may have it."""
    if resource.startswith(_OLD_ASCEND):
        return f"the pod asks {resource}, an old spelling: ask {_TODAY}"
    chips = [chip.resource for chip in conf.devices.chips]
    if resource.startswith(NEEDS_FAMILY) and resource not in chips:
        return f"the pod asks {resource}: no chip of device-config.yaml is asked so, they are {', '.join(chips)}"
    return ""


def nearest(resource: str, known: Iterable[str]) -> str:
    """Return the known name that a misspelt one is nearest to, '' where none is near.

    Names of one domain are alike anyway: there what follows the domain has to be near.
    """
    names = {name.lower(): name for name in known if name != resource}
    domain, slash, _ = resource.lower().rpartition("/")
    same = {name.removeprefix(domain + slash): name for name in names if slash and name.startswith(domain + slash)}
    wanted = resource.lower()
    if near := get_close_matches(wanted.removeprefix(domain + slash), same, n=1, cutoff=0.6):
        return names[same[near[0]]]
    near = get_close_matches(wanted, names, n=1, cutoff=0.85)
    return names[near[0]] if near else ""
