"""A scheduler whose pods may have to go, as :mod:`deviceshare_lab.clusters.preemption_scene` makes it."""

from deviceshare_lab.clusters import preemption_scene
from deviceshare_lab.clusters.preemption_scene import NOW, USUAL, conf, cpu

__all__ = ["NOW", "USUAL", "PreemptionScene", "conf", "cpu"]


class PreemptionScene(preemption_scene.PreemptionScene):
    """A scene that is asked for the names of victims."""

    def victims(self, name: str) -> list[str]:
        """Return the names of the pods that go for a PodGroup, which is placed then."""
        found = self.preempt(name)
        assert found.placed, str(found)
        return sorted(each.pod.name for each in found.victims)
