"""What is written on a pod for its device plugins, and what the annotations of a pod say of that later. Pure."""

from collections.abc import Iterator, Mapping

from deviceshare.families import BY_NAME, SERVED, Family
from deviceshare.model import Claim, InputError

from deviceshare_binder.bind_task import GiveUp
from deviceshare_binder.views import PodView


def families_of(claim: Claim) -> Iterator[Family]:
    """Yield the families of a claim's grants. Raises KeyError for one that nobody knows."""
    return (BY_NAME[name] for name in dict.fromkeys(grant.family for grant in claim.grants))


def annotations_of(claim: Claim, node: str, pod: PodView, moment: float) -> dict[str, str]:
    """Return what the device plugins read on a pod that is bound at a moment. Raises InputError, KeyError."""
    annotations: dict[str, str] = {}
    for family in families_of(claim):
        annotations |= family.annotations(claim, node, pod.containers, moment, pod.init_containers)
    return annotations


def has_its_devices(claim: Claim, node: str, pod: PodView, found: Mapping[str, str]) -> bool:
    """Return whether a pod that is bound with these annotations has the claim's devices, whenever it was bound."""
    try:
        return all(
            family.plugin.same(family.annotations(claim, node, pod.containers, 0.0, pod.init_containers), found)
            for family in families_of(claim)
        )
    except (InputError, KeyError):
        return False


def is_served(claim: Claim, annotations: Mapping[str, str]) -> bool:
    """Return whether the device plugins are done with a bound pod."""
    return annotations.get(SERVED) == "true" or all(
        family.plugin.served_all(annotations, [grant for grant in claim.grants if grant.family == family.name])
        for family in families_of(claim)
    )


def given_up(pod: PodView) -> GiveUp | None:
    """Return what to write on a pod that ended unserved, so that no plugin hands out its devices any more."""
    annotations: dict[str, str] = {}
    for name, _ in pod.unserved:
        annotations |= BY_NAME[name].plugin.given_up if name in BY_NAME else {}
    return GiveUp(pod.namespace, pod.name, pod.uid, annotations) if annotations else None
