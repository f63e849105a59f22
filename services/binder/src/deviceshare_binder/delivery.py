"""What is written on a pod for its device plugins, and what the annotations of a pod say of that later. Pure."""

from collections.abc import Mapping

from deviceshare.families import BY_NAME, SERVED, Family, UnknownFamilyError, calling, family_named
from deviceshare.model import Claim, InputError

from deviceshare_binder.bind_task import GiveUp
from deviceshare_binder.views import PodView


def families_of(claim: Claim) -> list[Family]:
    """Return the families of a claim's grants.

    Raises:
        UnknownFamilyError: a family is not registered in this process.
    """
    return [family_named(name) for name in dict.fromkeys(grant.family for grant in claim.grants)]


def annotations_of(claim: Claim, node: str, pod: PodView, moment: float) -> dict[str, str]:
    """Return what the device plugins read on a pod that is bound at a moment, in unix seconds.

    Raises:
        InputError: the claim's devices cannot be written.
        UnknownFamilyError: a family is not registered in this process.
        FamilyError: a family has a bug.
    """
    annotations: dict[str, str] = {}
    for family in families_of(claim):
        with calling(family.name, "annotations"):
            annotations |= family.annotations(claim, node, pod.containers, moment, pod.init_containers)
    return annotations


def has_its_devices(claim: Claim, node: str, pod: PodView, found: Mapping[str, str]) -> bool:
    """Return whether a pod that is bound with these annotations has the claim's devices, whenever it was bound.

    Raises:
        FamilyError: a family has a bug, so that nobody can tell.
    """
    try:
        families = families_of(claim)
    except UnknownFamilyError:
        return False
    for family in families:
        try:
            with calling(family.name, "annotations or plugin.same"):
                written = family.annotations(claim, node, pod.containers, 0.0, pod.init_containers)
                if not family.plugin.same(written, found):
                    return False
        except InputError:
            return False
    return True


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
