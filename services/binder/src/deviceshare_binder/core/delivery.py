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


def out_of_sight(pod: PodView | OtherPodView) -> list[Annotate]:
    """Return what to write on a pod so that no plugin selects it any more, nothing for one that kubelet may ask for.

    Devices left to hand out are removed from a pod that has ended, all of an earlier decision from one on no node.
    """
    ended = isinstance(pod, PodView) and pod.ended
    if not ended and isinstance(pod, PodView) and pod.node:
        return []
    unserved = pod.unserved if isinstance(pod, PodView) else ()
    annotations: dict[str, str | None] = {}
    for name in (*(name for name, _ in unserved), *(name for _, name, _ in pod.selectable)):
        if name in BY_NAME:
            plugin = BY_NAME[name].plugin
            annotations |= plugin.given_up if ended else dict.fromkeys(sorted(plugin.decision))
    if not annotations:
        return []
    namespace, name = pod.namespace, pod.name
    unbound = not ended
    return [Annotate(kind="Pod", namespace=namespace, name=name, uid=pod.uid, annotations=annotations, unbound=unbound)]
