"""What the binder has to know of the device plugin behind a family: how a pod is handed over to it.

kubelet asks a device plugin for so many devices and names no pod. Plugins guess the pod from the annotations of all
that wait on the node, so that two alike at the same time may be given each other's devices. A pod is on its way from
its binding until the plugin has served all of its containers; two whose keys meet are never on their way to one node
together.
"""

from collections.abc import Mapping, Sequence

from deviceshare.model import ContainerGrant

SERVED_TIME = str(2**64 - 1)
"""What plugins write as the time of a pod that needs nothing more: as the youngest it is served after all others."""


SERVED = "deviceshare.io/served"
"""On a pod of a cluster without device plugins, whoever plays them: it is served, and what the scheduler wrote for the
plugins stands there as it was written."""


def serves_one_container(resource: str, plugin: str, grants: Sequence[ContainerGrant]) -> tuple[str, ...]:
    """Return warnings about containers with a resource that a plugin, which serves one container of a pod, leaves out.

    ``resource`` and ``plugin`` are words for the messages. kubelet rejects such a pod.
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
    """A device plugin that does what kubelet says and reads nothing on pods: there is nothing to wait for."""

    name = "the device plugin"
    """For messages."""
    locks: tuple[str, ...] = ()
    """Annotations of a node by which schedulers that hand over to this plugin lock it; the first is the one that is
    written where locks are asked for."""
    needs_lock = False
    """Whether the plugin serves the pod that the lock names: it then says who holds it."""
    pending_only = False
    """Whether it looks at pods in phase Pending only."""
    given_up: Mapping[str, str] = {}
    """What is written on a pod that ended before it was served, so that the plugin does not serve it in the place of
    another one; {} where it looks only at pods that live."""
    passing: frozenset[str] = frozenset()
    """Annotations that tell times, or that the plugin changes, of those that the family writes."""

    def keys(self, grants: Sequence[ContainerGrant]) -> tuple[str, ...]:
        """Return what the plugin may take a pod with these grants for, in words that go after "asks"."""
        return ()

    def served(self, annotations: Mapping[str, str]) -> bool:
        """Return whether the plugin has noted on a bound pod that it served it, or that it cannot."""
        return True

    def served_all(self, annotations: Mapping[str, str], grants: Sequence[ContainerGrant]) -> bool:
        """Return whether the plugin is done with every container of a bound pod that does not run yet.

        kubelet asks for one container after the other, for init containers too, and most plugins note the first that
        they serve. Where more of them hold devices only the pod's phase tells that kubelet has asked for all.
        """
        return self.served(annotations) and len(grants) < 2 and not any(grant.stage for grant in grants)

    def until_running(self, annotations: Mapping[str, str]) -> tuple[str, ...]:
        """Return the keys for which the plugin may still take a bound pod that it has served, until the pod runs."""
        return ()

    def once_served(self, annotations: Mapping[str, str]) -> dict[str, str]:
        """Return what the plugin writes on a bound pod when it serves it, {} where there is nothing to serve."""
        return {}

    def same(self, written: Mapping[str, str], found: Mapping[str, str]) -> bool:
        """Return whether a bound pod has the devices that the family wrote: all of it but what passes."""
        return all(found.get(key) == value for key, value in written.items() if key not in self.passing)
