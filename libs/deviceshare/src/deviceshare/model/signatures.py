"""Signatures of what the binder writes: device annotations of pods, and the admission of PodGroups to their queue.

The signature is an HMAC-SHA256 over the pod's uid, its node and its device annotations, with a key shared by the binder
and inventory. Its annotation lists the covered annotations; other annotations may be added but are not trusted.

The signature of an admission covers the PodGroup's uid and the terms that placement admitted: the queue and
``minResources``. A PodGroup with other terms has to be admitted again.
"""

import hashlib
import hmac
from collections.abc import Mapping, Sequence

import msgspec

SIGNATURE = "deviceshare.io/signature"
"""Pod annotation: the signature in hexadecimal, ``:``, and the names of the covered annotations, comma-separated."""

ADMISSION = "deviceshare.io/admission"
"""PodGroup annotation: the signature of its admission, in hexadecimal."""

_OVERWRITTEN = ("-to-allocate", "-time", "-phase")
"""Suffixes of annotations that device plugins overwrite when they serve a pod; the signature does not cover them."""


def sign(keys: Sequence[bytes], uid: str, node: str, annotations: Mapping[str, str]) -> dict[str, str]:
    """Return the signature annotation for the annotations of a binding, made with the first key.

    Returns {} without keys or without annotations to sign.
    """
    names = sorted(name for name in annotations if not name.endswith(_OVERWRITTEN))
    if not (keys and names):
        return {}
    digest = _digest(keys[0], uid, node, [(name, annotations[name]) for name in names])
    return {SIGNATURE: f"{digest}:{','.join(names)}"}


def signature_covers(annotations: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names of the annotations that the signature says it covers, whether it is valid or not."""
    _, _, covered = annotations.get(SIGNATURE, "").partition(":")
    return tuple(covered.split(","))


def signed(keys: Sequence[bytes], uid: str, node: str, annotations: Mapping[str, str]) -> dict[str, str] | None:
    """Return the annotations that a valid signature by any of the keys covers.

    None: no signature, or not valid for this pod, node and values.
    """
    digest, names = annotations.get(SIGNATURE, "").partition(":")[0], signature_covers(annotations)
    if not digest.isascii() or any(name not in annotations for name in names):
        return None
    values = [(name, annotations[name]) for name in names]
    if not any(hmac.compare_digest(_digest(key, uid, node, values), digest) for key in keys):
        return None
    return dict(values)


def admission_terms(queue: str, min_resources: Mapping[str, int] | None) -> str:
    """Return what a PodGroup asks of its queue: its name, and ``minResources`` if there are any."""
    amounts = sorted(min_resources.items()) if min_resources is not None else None
    return msgspec.json.encode((queue, amounts)).decode()


def sign_admission(keys: Sequence[bytes], uid: str, terms: str) -> dict[str, str]:
    """Return the annotation of a PodGroup that was admitted on these terms; {} without keys."""
    return {ADMISSION: _admission(keys[0], uid, terms)} if keys else {}


def admission_signed(keys: Sequence[bytes], uid: str, terms: str, signature: str) -> bool:
    """Return whether a signature by any of the keys is valid for this PodGroup and these terms."""
    return signature.isascii() and any(hmac.compare_digest(_admission(key, uid, terms), signature) for key in keys)


def read_keys(text: str) -> tuple[bytes, ...]:
    """Return the keys of a text, one per line: the first signs, all are accepted."""
    return tuple(line.strip().encode() for line in text.splitlines() if line.strip())


def _admission(key: bytes, uid: str, terms: str) -> str:
    return hmac.new(key, msgspec.json.encode((ADMISSION, uid, terms)), hashlib.sha256).hexdigest()


def _digest(key: bytes, uid: str, node: str, values: Sequence[tuple[str, str]]) -> str:
    message = msgspec.json.encode((SIGNATURE, uid, node, values))
    return hmac.new(key, message, hashlib.sha256).hexdigest()
