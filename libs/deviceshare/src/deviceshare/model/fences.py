"""Fences: an annotation of an unbound pod that names the claims by which it must not be bound any more.

A binding expects the pod's ``resourceVersion``. Writing the fence changes it, so that all earlier requests to bind the
pod fail; the annotation keeps a binder that reads the pod anew, but an old ledger, from sending another one.
"""

import hashlib
import re
from collections.abc import Mapping

FENCE = "deviceshare.io/fenced-claims"
"""Pod annotation: the fenced claims, comma-separated, the latest last."""
MAX_FENCED = 16
"""Claims that the annotation names; beyond this number the oldest are dropped. A binder would have to be behind by as
many refusals of one pod to bind it for a dropped one."""
_ENTRY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


def fence_entry(claim: str) -> str:
    """Return the name of a claim in the annotation: its id, or a digest of an id that is too long or has a comma."""
    return claim if _ENTRY.fullmatch(claim) else hashlib.blake2b(claim.encode(), digest_size=16).hexdigest()


def fenced_claims(annotations: Mapping[str, str]) -> tuple[str, ...]:
    """Return the entries of the annotation, () if there is none. Invalid ones, which only a user can write, are left
    out.
    """
    text = annotations.get(FENCE, "")
    if not text:
        return ()
    return tuple(entry for entry in text.split(",") if _ENTRY.fullmatch(entry))[-MAX_FENCED:]


def with_fence(annotations: Mapping[str, str], claim: str) -> str | None:
    """Return the annotation's value with a claim added, None if it names the claim already."""
    fenced, entry = fenced_claims(annotations), fence_entry(claim)
    return None if entry in fenced else ",".join((*fenced, entry)[-MAX_FENCED:])
