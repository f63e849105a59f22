"""The answer to a request for an eviction."""

from enum import Enum
from typing import NamedTuple


class EvictState(Enum):
    """The result of a request to evict a pod."""

    MAY_GO = "may go"
    """The pod would be evicted now, or is being deleted already; nothing was written."""
    DONE = "done"
    """The pod is being deleted, or was already."""
    GONE = "gone"
    """The pod does not exist, or has another uid."""
    BLOCKED = "blocked"
    """A PodDisruptionBudget does not allow it, or its namespace is being deleted and the pod is not yet, as ``reason``
    says; it may go later."""
    REFUSED = "refused"
    """The API server refused the request for ``reason``; it will refuse it again."""
    FORBIDDEN = "forbidden"
    """The API server does not permit the request (403), as ``reason`` says, and probably no such request."""


SEVERAL_BUDGETS = "This pod has more than one PodDisruptionBudget"
"""How the reason of ``BLOCKED`` begins, in the words of the API server, if several budgets select the pod. It is not
evicted before all but one of them are gone."""


class EvictAnswer(NamedTuple):
    """The answer to :meth:`Cluster.evict`."""

    state: EvictState
    reason: str = ""
