"""The PersistentVolumeClaims of candidates that CLUSTER does not hold, since no pod uses them yet. Pure."""

from collections.abc import Sequence
from typing import NamedTuple

from deviceshare.model import VOLUMES, PodFact, PodVolume
from deviceshare.volumes import Catalog
from msgspec.structs import replace

from deviceshare_cli.whatif.manifests import Candidate

_MAX_SHOWN = 5
"""The most claims that a warning lists."""


class Known(NamedTuple):
    """Candidates without the volumes that cannot be evaluated, and a warning about these, '' if there are none."""

    candidates: list[Candidate]
    warning: str


def without_unknown_claims(candidates: Sequence[Candidate], catalog: Catalog) -> Known:
    """Remove the volumes whose claims are not known, and all ephemeral volumes: their claims are made with the pods.

    Inventory publishes only claims that pods of the cluster use, so that a claim that is not known may well exist.
    """
    unknown: dict[str, None] = {}
    found = []
    for candidate in candidates:
        pods = []
        for pod in candidate.pods:
            dropped = _unknown(pod, catalog)
            unknown |= dict.fromkeys(dropped.values())
            pods.append(_without(pod, frozenset(dropped)) if dropped else pod)
        found.append(candidate._replace(pods=tuple(pods)))
    if not unknown:
        return Known(found, "")
    shown = ", ".join(list(unknown)[:_MAX_SHOWN]) + (", …" if len(unknown) > _MAX_SHOWN else "")
    return Known(found, f"volumes are not evaluated whose PersistentVolumeClaims no pod of the cluster uses: {shown}")


def _unknown(pod: PodFact, catalog: Catalog) -> dict[PodVolume, str]:
    """Return the volumes of a pod that cannot be evaluated, with their claims."""
    uses = zip(pod.ask.volumes, pod.volume_uses, strict=True)
    return {volume: use.claim for volume, use in uses if not volume.claim or catalog.claim(use.claim) is None}


def _without(pod: PodFact, dropped: frozenset[PodVolume]) -> PodFact:
    fields = {f"{VOLUMES}[{each.name}]" for each in dropped}
    ask = replace(
        pod.ask,
        volumes=tuple(each for each in pod.ask.volumes if each not in dropped),
        unsupported=tuple(field for field in pod.ask.unsupported if field not in fields),
    )
    return replace(pod, ask=ask)
