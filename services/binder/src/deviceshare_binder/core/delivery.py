"""The annotations of a pod for its device plugins: what to write, and what those of a bound pod mean."""

from collections.abc import Iterator, Mapping

from deviceshare.families import BY_NAME, SERVED, Family
from deviceshare.model import Claim, InputError

from deviceshare_binder.core.commands import Annotate
from deviceshare_binder.core.views import PodView


def families_of(claim: Claim) -> Iterator[Family]:
    """Yield the families of a claim's grants. Raises KeyError for an unknown one."""
    return (BY_NAME[name] for name in dict.fromkeys(grant.family for grant in claim.grants))


def annotations_of(claim: Claim, node: str, pod: PodView, moment: float) -> dict[str, str]:
    """Return the annotations for the device plugins of a pod that is bound at a unix time.

    Raises InputError, KeyError.
    """
    annotations: dict[str, str] = {}
    for family in families_of(claim):
        annotations |= family.annotations(claim, node, pod.containers, moment, pod.init_containers)
    return annotations


def has_its_devices(claim: Claim, node: str, pod: PodView, found: Mapping[str, str]) -> bool:
    """Return whether a pod bound with these annotations has the claim's devices, whenever it was bound."""
    try:
        return all(
            family.plugin.same(family.annotations(claim, node, pod.containers, 0.0, pod.init_containers), found)
            for family in families_of(claim)
        )
    except (InputError, KeyError):
        return False


def is_served(claim: Claim, annotations: Mapping[str, str]) -> bool:
    """Return whether the device plugins have served a bound pod."""
    return annotations.get(SERVED) == "true" or all(
        family.plugin.served_all(annotations, [grant for grant in claim.grants if grant.family == family.name])
        for family in families_of(claim)
    )


def given_up(pod: PodView) -> Annotate | None:
    """Return what to write on a pod that ended unserved, so that no plugin allocates its devices any more."""
    annotations: dict[str, str | None] = {}
    for name, _ in pod.unserved:
        annotations |= BY_NAME[name].plugin.given_up if name in BY_NAME else {}
    if not annotations:
        return None
    return Annotate(kind="Pod", namespace=pod.namespace, name=pod.name, uid=pod.uid, annotations=annotations)
