"""The device plugin behind a family, as the binder sees it: how a pod is handed over to it.

kubelet requests a number of devices from a device plugin and names no pod. Plugins guess the pod from the annotations
of pods, and may confuse two pods with equal requests. Plugins mark a pod before they answer kubelet, which may end
before it has saved the answer, and requests devices for the same pod again. The handoff of a pod therefore lasts from
its binding until kubelet has admitted it (:mod:`deviceshare.objects.unserved`). Handoffs on one node never overlap for
pods with a common key.
"""

from collections.abc import Mapping, Sequence

from deviceshare.model import ContainerGrant

SERVED_TIME = str(2**64 - 1)
"""What plugins write as the time of a pod that they have served: as the youngest pod it comes after all others."""


SERVED = "deviceshare.io/served"
"""The annotation by which simulated device plugins mark a pod as served; the scheduler's annotations stay unchanged."""


def serves_one_container(resource: str, plugin: str, grants: Sequence[ContainerGrant]) -> tuple[str, ...]:
    """Return warnings about the containers that a plugin does not serve, where it serves one container of a pod.

    ``resource`` and ``plugin`` are names for the messages. kubelet rejects these pods.
    """
    mains = [grant.container for grant in grants if not grant.stage]
    inits = [grant.container for grant in grants if grant.stage]
    found = []
    if len(mains) > 1:
        found.append(
            f"{resource} in {len(mains)} containers ({', '.join(mains)}): {plugin} serves one container of a pod"
        )
    if inits:
        found.append(f"{resource} in init containers ({', '.join(inits)}): {plugin} serves spec.containers only")
    return tuple(found)


class DevicePlugin:
    """A device plugin that reads no annotations of pods, so that the binder need not wait for it."""

    name = "the device plugin"
    """The name in messages."""
    locks: tuple[str, ...] = ()
    """Annotations of a node by which schedulers lock it for this plugin; the binder writes the first one where locks
    are enabled."""
    needs_lock = False
    """Whether the plugin serves the pod that the lock names, which therefore has to name its holder."""
    pending_only = False
    """Whether the plugin reads pods in phase Pending only."""
    given_up: Mapping[str, str] = {}
    """What the binder writes on a pod that ended before it was served, so that the plugin does not confuse it with
    another pod; {} where the plugin reads only running and pending pods."""
    selects: str = ""
    """The annotation without which the plugin selects no pods by :meth:`selectable`; '' if it never does."""
    decision: frozenset[str] = frozenset()
    """What the binder removes from a pod on no node that the plugin may select (:meth:`selectable`): annotations of an
    earlier decision."""
    passing: frozenset[str] = frozenset()
    """Annotations of the family that hold times, or that the plugin changes."""

    def keys(self, grants: Sequence[ContainerGrant]) -> tuple[str, ...]:
        """Return the keys by which the plugin finds a pod with these grants, in words that follow "which has"."""
        return ()

    def served(self, annotations: Mapping[str, str]) -> bool:
        """Return whether the plugin has marked a bound pod as served, or as one that it cannot serve."""
        return True

    def selectable(self, annotations: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
        """Return the node whose plugin may select a pod by its annotations alone, and the keys by which it does.

        The pod may be on no node or on another one, and in any phase. ('', ()) for a plugin that reads the pods of its
        node, and for a pod that it does not select.
        """
        return "", ()

    def until_running(self, annotations: Mapping[str, str]) -> tuple[str, ...]:
        """Return the keys by which the plugin may still find a bound pod that it has served, until the pod runs."""
        return ()

    def once_served(self, annotations: Mapping[str, str]) -> dict[str, str]:
        """Return the annotations that the plugin writes when it serves a bound pod, {} for nothing to serve."""
        return {}

    def difference(self, annotations: Mapping[str, str], grants: Sequence[ContainerGrant]) -> str:
        """Return what shows that the containers of a pod that kubelet has admitted have other devices, '' if nothing.

        A plugin marks the pod that it selects before it answers kubelet.
        """
        if not self.once_served(annotations):
            return ""
        return "its device plugin has not served it: its containers have the devices of another pod"

    def same(self, written: Mapping[str, str], found: Mapping[str, str]) -> bool:
        """Return whether a bound pod has the annotations that the family wrote, except ``passing`` ones."""
        return all(found.get(key) == value for key, value in written.items() if key not in self.passing)
