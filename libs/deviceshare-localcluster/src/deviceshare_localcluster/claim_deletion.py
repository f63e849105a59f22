"""Deletion of ResourceClaims, as by the API server: one with finalizers goes when the last one is removed."""

import time

from deviceshare_cluster.changes import timestamp
from deviceshare_cluster.interface import ClusterError, Object

from deviceshare_localcluster.kinds import Key
from deviceshare_localcluster.store import Store
from deviceshare_localcluster.termination import is_terminating

CLAIM = "ResourceClaim"


async def delete_claim(store: Store, key: Key) -> bool:
    """Delete a claim, or mark it as being deleted as long as it has finalizers.

    Returns whether there is one. Raises ClusterError.
    """
    found = False

    def mark(live: Object | None) -> Object | None:
        nonlocal found
        found = live is not None
        if live is None or is_terminating(live):
            return None
        return live | {"metadata": live["metadata"] | {"deletionTimestamp": timestamp(time.time())}}

    try:
        await store.update(key, mark)
    except ClusterError as error:
        if error.final:  # it cannot be read
            return await store.delete(key)
        raise
    return await end_claim(store, key) or found


async def end_claim(store: Store, key: Key) -> bool:
    """Delete a claim that is being deleted and has no finalizers; return whether it was. Raises ClusterError."""
    return await store.delete(key, is_released)


def is_released(claim: Object) -> bool:
    """Return whether a claim is being deleted and nothing keeps it."""
    return is_terminating(claim) and not claim["metadata"].get("finalizers")
