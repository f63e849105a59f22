"""The ids of a pod's trace, which every process derives from the pod's uid.

The ids are a hash: a uid is a UUID with fixed bits, by which samplers that compare bits of the trace id would take no
pod, or all pods.
"""

from hashlib import blake2b
from typing import NamedTuple

PHASES = ("waiting", "deciding", "claiming", "handing over", "binding")
"""The phases of a bound pod, in order; each begins when the one before it ends.

* waiting: from the time placement first saw the pod until the beginning of the round that decided it;
* deciding: until the round's ledgers are sent;
* claiming: until the binder received the claim;
* handing over: until the binding is requested: the pod waits for the facts, for the device plugin of its node, and for
  the node's lock;
* binding: until the cluster accepted the binding.
"""
_ID = 8


class TraceIds(NamedTuple):
    """The ids of a pod's trace, its root span, and the spans of its :data:`PHASES`."""

    trace: int
    root: int
    phases: tuple[int, ...]


def trace_ids(uid: str) -> TraceIds:
    """Return the ids of a pod's trace and its spans; none of them is 0."""
    digest = blake2b(uid.encode(), digest_size=64).digest()
    root, *phases = (int.from_bytes(digest[at : at + _ID]) or 1 for at in range(2 * _ID, (3 + len(PHASES)) * _ID, _ID))
    return TraceIds(int.from_bytes(digest[: 2 * _ID]) or 1, root, tuple(phases))


def trace_number(uid: str) -> int:
    """Return the id of a pod's trace as a number, without those of its spans."""
    return int.from_bytes(blake2b(uid.encode(), digest_size=64).digest()[: 2 * _ID]) or 1


def trace_id(uid: str) -> str:
    """Return the id of a pod's trace as users know it: 32 hex digits."""
    return f"{trace_number(uid):032x}"
