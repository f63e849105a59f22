"""The simulated disruption controller: how many pods of each PodDisruptionBudget may be evicted.

Source: Kubernetes pkg/controller/disruption, for ``minAvailable`` as a number.
"""

import asyncio
import random

from deviceshare_cluster.interface import Object

from deviceshare_lab.world.apiserver import ApiServer, Seen, key_of, selects

DELAY = (0.05, 1.0)
"""Seconds from a change of a pod until the status of its budgets follows."""


class Budgets:
    """Keeps the status of all PodDisruptionBudgets."""

    def __init__(self, server: ApiServer, chance: random.Random) -> None:
        self._server, self._chance = server, chance
        self._due = False
        server.observers.append(self._seen)

    def _seen(self, seen: Seen) -> None:
        if seen.kind in ("Pod", "PodDisruptionBudget") and not self._due and any(self._budgets()):
            self._due = True
            asyncio.get_running_loop().call_later(self._chance.uniform(*DELAY), self._count)

    def _budgets(self) -> list[Object]:
        return list(self._server.objects("PodDisruptionBudget"))

    def _count(self) -> None:
        self._due = False
        for budget in self._budgets():
            pods = [pod for pod in self._server.objects("Pod") if selects(budget, pod)]
            healthy = sum(
                pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"] for pod in pods
            )
            allowed = max(0, healthy - int(budget["spec"]["minAvailable"]))

            def change(found: Object, allowed: int = allowed) -> bool:
                status = {"disruptionsAllowed": allowed, "observedGeneration": 1}
                changed = bool(found.get("status") != status)
                found["status"] = status
                return changed

            self._server.update(key_of(budget), change, "disruption-controller")
