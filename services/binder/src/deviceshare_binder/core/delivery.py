"""The annotations of a pod for its device plugins: writing them, and reading those of a bound pod."""

from collections.abc import Mapping

from deviceshare.families import BY_NAME, Family, FamilyError, UnknownFamilyError, calling, family_named
from deviceshare.model import BOUND, REFUSED, Claim, InputError

from deviceshare_binder.core.commands import Annotate
from deviceshare_binder.core.views import OtherPodView, PodView


def families_of(claim: Claim) -> list[Family]:
    """Return the families of a claim's grants.

    Raises:
        UnknownFamilyError: a family is not registered in this process.
    """
    return [family_named(name) for name in dict.fromkeys(grant.family for grant in claim.grants)]


def annotations_of(claim: Claim, node: str, pod: PodView, moment: float) -> dict[str, str]:
    """Return the annotations for the device plugins of a pod that is bound at a unix time.

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
    """Return whether a pod bound with these annotations has the claim's devices, whenever it was bound.

    Raises:
        FamilyError: a family has a bug: the devices cannot be compared.
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


def outcome_of_bound(
    claim: Claim, node: str, pod: PodView | None, annotations: Mapping[str, str] | None
) -> tuple[str, str]:
    """Return state and reason of the outcome of a claim whose pod is bound to its node with these annotations.

    The pod is bound for this claim if it has the claim's devices, or if that cannot be compared.
    """
    try:
        ours = annotations is None or pod is None or has_its_devices(claim, node, pod, annotations)
    except FamilyError as error:
        # The pod runs on the node: its devices stay claimed, and the outcome names the family.
        return BOUND, str(error)
    return (BOUND, "") if ours else (REFUSED, f"the pod is bound to {node} with other devices")


def given_up(pod: PodView) -> Annotate | None:
    """Return what to write on a pod that ended unserved, so that no plugin allocates its devices any more."""
    annotations: dict[str, str | None] = {}
    for name in (*(name for name, _ in pod.unserved), *(name for _, name, _ in pod.selectable)):
        annotations |= BY_NAME[name].plugin.given_up if name in BY_NAME else {}
    if not annotations:
        return None
    return Annotate(kind="Pod", namespace=pod.namespace, name=pod.name, uid=pod.uid, annotations=annotations)


def cleared(pod: PodView | OtherPodView) -> Annotate | None:
    """Return what to write on a pod on no node, so that no plugin allocates devices of an earlier decision for it."""
    names = {name for _, name, _ in pod.selectable}
    annotations: dict[str, str | None] = {
        key: None for name in sorted(names) if name in BY_NAME for key in sorted(BY_NAME[name].plugin.decision)
    }
    if not annotations:
        return None
    return Annotate(
        kind="Pod", namespace=pod.namespace, name=pod.name, uid=pod.uid, annotations=annotations, unbound=True
    )
