"""Pods that share a uid: of a restored backup or of hand-written objects. A real API server makes uids unique.

Facts, claims and explanations are by uid. One of the pods keeps the uid; each of the others is published under an
alias, made of its uid and its name. A pod under an alias is not placed; if it is bound, it is charged.
"""

from zlib import crc32

from deviceshare.model.facts import PodUid

_SEPARATOR = "~"


def alias(uid: str, ref: str) -> PodUid:
    """Return the identity on the bus of the pod ``ref`` (``namespace/name``), whose uid another pod has."""
    return PodUid(f"{uid}{_SEPARATOR}{crc32(ref.encode()):08x}")


def object_uid(uid: str) -> str:
    """Return the uid that the object of a pod has in the cluster."""
    return uid.partition(_SEPARATOR)[0]
