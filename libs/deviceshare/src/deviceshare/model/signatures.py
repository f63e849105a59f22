"""Signatures of the annotations that the binder writes on a pod.

HMAC-SHA256 over the pod's uid, its node and the annotations with its devices, with a key that the binder and inventory
share. An annotation holds the signature and the names of the covered annotations, so other annotations may be added to
the pod; only covered annotations are trusted.
"""

import hashlib
import hmac
from collections.abc import Mapping, Sequence

import msgspec

SIGNATURE = "deviceshare.io/signature"
"""On a pod: the signature in hexadecimal, then ``:`` and the names of the annotations that it covers."""

PASSING = ("-to-allocate", "-time", "-phase")
"""Suffixes of annotations that device plugins rewrite when they serve a pod; these are not covered."""


def sign(keys: Sequence[bytes], uid: str, node: str, annotations: Mapping[str, str]) -> dict[str, str]:
    """Return the annotation with the signature of a pod's annotations, by the first key.

    Empty if there is no key or no annotation to sign.
    """
    names = sorted(name for name in annotations if not name.endswith(PASSING))
    if not (keys and names):
        return {}
    digest = _digest(keys[0], uid, node, [(name, annotations[name]) for name in names])
    return {SIGNATURE: f"{digest}:{','.join(names)}"}


def signed(keys: Sequence[bytes], uid: str, node: str, annotations: Mapping[str, str]) -> dict[str, str] | None:
    """Return the annotations that a signature by any of the keys covers.

    None if there is no valid signature for this pod, node and values.
    """
    digest, _, covered = annotations.get(SIGNATURE, "").partition(":")
    names = covered.split(",")
    if not digest.isascii() or any(name not in annotations for name in names):
        return None
    values = [(name, annotations[name]) for name in names]
    if not any(hmac.compare_digest(_digest(key, uid, node, values), digest) for key in keys):
        return None
    return dict(values)


def read_keys(text: str) -> tuple[bytes, ...]:
    """Return the keys in a text, one per line: the first key signs, all keys verify."""
    return tuple(line.strip().encode() for line in text.splitlines() if line.strip())


def _digest(key: bytes, uid: str, node: str, values: Sequence[tuple[str, str]]) -> str:
    message = msgspec.json.encode((SIGNATURE, uid, node, values))
    return hmac.new(key, message, hashlib.sha256).hexdigest()
