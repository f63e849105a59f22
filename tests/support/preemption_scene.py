"""A scheduler whose pods may have to go, as :mod:`deviceshare_lab.clusters.preemption_scene` makes it."""

from deviceshare.model import Eviction
from deviceshare_lab.clusters import preemption_scene
from deviceshare_lab.clusters.preemption_scene import NOW, USUAL, conf, cpu
from msgspec.structs import replace

__all__ = ["NOW", "USUAL", "PreemptionScene", "conf", "cpu"]


class PreemptionScene(preemption_scene.PreemptionScene):
    """A scene that is asked for the names of victims."""

    def victims(self, name: str) -> list[str]:
        """Return the names of the pods that go for a PodGroup, which is placed then."""
        found = self.preempt(name)
        assert found.placed, str(found)
        return sorted(each.pod.name for each in found.victims)


def nominate(scene: PreemptionScene, name: str) -> list[str]:
    """Write what is found for a PodGroup into the ledgers; return the uids of the pods that go."""
    scheduler = scene.scheduler
    found = scene.preempt(name)
    uids = tuple(sorted(each.uid for each in found.victims))
    for victim in found.victims:
        eviction = Eviction(
            uid=victim.uid, namespace="ns", name=victim.pod.name, claim=f"{name}-0", preemptor=f"ns/{name}-0",
            action="preempt",
        )  # fmt: skip
        known = scheduler.ledger(victim.node)
        scheduler.claim(victim.node, known.claims.values(), (*known.evictions.values(), eviction))
    for number, (pod, placement) in enumerate(found.placed):
        claim = scheduler.new_claim(f"{name}-{number}", pod, placement, found.decision, NOW)
        known = scheduler.ledger(placement.node)
        claims = (*known.claims.values(), replace(claim, waits_for=uids))
        scheduler.claim(placement.node, claims, known.evictions.values())
    return list(uids)
