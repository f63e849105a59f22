"""The Queues ``root`` and ``default``, which are created where they do not exist.

Volcano's scheduler creates them when it starts, and Volcano's webhook refuses every Job whose queue does not exist.
Source: Volcano pkg/scheduler/cache/cache.go (newDefaultAndRootQueue).
"""

import asyncio
import logging
from collections.abc import Callable, Iterable

from deviceshare.model import Backoff
from deviceshare.queueing import ROOT
from deviceshare_cluster.interface import Cluster, ClusterError, Object

log = logging.getLogger("deviceshare.binder")

_RETRY = Backoff(2.0, 30.0)
"""Seconds between two checks for missing Queues; the pause grows while they cannot be created."""


async def keep_queues(cluster: Cluster, missing: Callable[[], Iterable[str]]) -> None:
    """Create the Queues that are missing, until cancelled.

    It retries with a growing pause while the cluster refuses them: the kind, or Volcano's webhook, may come later.
    """
    failures, warned = 0, set[str]()
    while True:
        pause, failed = _RETRY.delay(failures), False
        for name in missing():
            try:
                await cluster.ensure(_new_queue(name))
                log.info("queue %s exists now", name)
            except ClusterError as error:
                failed = True
                # It may only be too early; what lasts is something to look at.
                level = logging.WARNING if pause == _RETRY.most and name not in warned else logging.DEBUG
                warned |= {name} if level == logging.WARNING else set()
                log.log(level, "cannot create queue %s: %s", name, error)
        failures = failures + 1 if failed else 0
        await asyncio.sleep(_RETRY.delay(failures))


def _new_queue(name: str) -> Object:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {"weight": 1, "reclaimable": name != ROOT},
    }
