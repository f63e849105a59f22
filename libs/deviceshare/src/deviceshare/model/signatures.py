"""What we wrote on a pod when we bound it, told from what others wrote: a signature in an annotation of its own.

It covers the pod's uid, its node and the annotations that give it devices, as they were written: HMAC-SHA256 with a key
that the binder and inventory share. The annotation names what it covers, so that others may be added to the pod; what
it does not cover is not believed.
"""

import hashlib
import hmac
from collections.abc import Mapping, Sequence

import msgspec

SIGNATURE = "deviceshare.io/signature"
"""On a pod: the signature in hexadecimal, then ``:`` and the names of the annotations that it covers."""

PASSING = ("-to-allocate", "-time", "-phase")
"""How the names of annotations end that device plugins write anew when they serve a pod: those are not covered."""


def sign(keys: Sequence[bytes], uid: str, node: str, annotations: Mapping[str, str]) -> dict[str, str]:
    """Return the annotation that signs what is written on a pod with its binding, by the first of the keys.

    Nothing where there is no key, or nothing to sign.
    """
    names = sorted(name for name in annotations if not name.endswith(PASSING))
    if not (keys and names):
        return {}
    digest = _digest(keys[0], uid, node, [(name, annotations[name]) for name in names])
    return {SIGNATURE: f"{digest}:{','.join(names)}"}


def signed(keys: Sequence[bytes], uid: str, node: str, annotations: Mapping[str, str]) -> dict[str, str] | None:
    """Return the annotations that a signature by any of the keys covers.

    None where there is no signature, or it is not of this pod on this node with these values.
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
    """Return the keys in a text, one a line: the first one signs, all are accepted."""
    return tuple(line.strip().encode() for line in text.splitlines() if line.strip())


def _digest(key: bytes, uid: str, node: str, values: Sequence[tuple[str, str]]) -> str:
    message = msgspec.json.encode((SIGNATURE, uid, node, values))
    return hmac.new(key, message, hashlib.sha256).hexdigest()
