"""Signatures of the device annotations that the binder writes.

The signature is an HMAC-SHA256 over the pod's uid, its node and its device annotations, with a key shared by the binder
and inventory. Its annotation lists the covered annotations; other annotations may be added but are not trusted.
"""

import hashlib
import hmac
from collections.abc import Mapping, Sequence

import msgspec

SIGNATURE = "deviceshare.io/signature"
"""Pod annotation: the signature in hexadecimal, ``:``, and the names of the covered annotations, comma-separated."""

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


def signed(keys: Sequence[bytes], uid: str, node: str, annotations: Mapping[str, str]) -> dict[str, str] | None:
    """Return the annotations that a valid signature by any of the keys covers.

    None: no signature, or not valid for this pod, node and values.
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
    """Return the keys of a text, one per line: the first signs, all are accepted."""
    return tuple(line.strip().encode() for line in text.splitlines() if line.strip())


def _digest(key: bytes, uid: str, node: str, values: Sequence[tuple[str, str]]) -> str:
    message = msgspec.json.encode((SIGNATURE, uid, node, values))
    return hmac.new(key, message, hashlib.sha256).hexdigest()
