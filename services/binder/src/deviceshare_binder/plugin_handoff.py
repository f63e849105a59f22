"""Which pods are on their way to a device plugin, node by node, and who waits for that. Pure.

A pod is on its way from the moment its binding is begun until its fact says that the plugin has served it. Two of which
the plugin could take one for the other (:meth:`deviceshare.families.device_plugin.DevicePlugin.keys`) are never on
their way to one node together: the later one waits, and those after it that need the same. It also waits for pods that
are served, as long as the plugin may still take them for another pod: until they run, at most for ``patience``.
"""

import heapq
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from deviceshare.families import BY_NAME
from deviceshare.model import ContainerGrant

from deviceshare_binder.views import PodView

PATIENCE = 60.0
"""Seconds that a device plugin may take before it is told that it does not serve a pod; kubelet asks it at once, before
any image is pulled."""

Keys = frozenset[str]
"""What a plugin may take a pod for. Two plugins never have the same words."""


def keys_of(grants: Iterable[ContainerGrant]) -> Keys:
    """Return what the device plugins may take a pod with these grants for; a family that nobody knows has none."""
    by_family: dict[str, list[ContainerGrant]] = {}
    for grant in grants:
        by_family.setdefault(grant.family, []).append(grant)
    return frozenset(
        key for name, held in by_family.items() if name in BY_NAME for key in BY_NAME[name].plugin.keys(held)
    )


class Stuck(NamedTuple):
    """Tell that a plugin does not serve a pod, and that claims (ids) wait for it."""

    uid: str
    node: str
    keys: Sequence[str]
    plugins: Sequence[str]
    waiting: Sequence[str]


class PluginHandoff:
    """The way to the device plugins of one node."""

    __slots__ = ("begun", "called", "held", "reserved", "starting", "stuck", "unserved")

    def __init__(self) -> None:
        self.unserved: dict[str, Keys] = {}
        """Pods that are bound here and not served, by uid, as their facts say."""
        self.begun: dict[str, Keys] = {}
        """Pods of which a binding has begun, and no fact says yet what became of it, by uid."""
        self.starting: dict[str, Keys] = {}
        """Pods that are served and do not run yet, by uid; no keys once they took too long."""
        self.held: dict[str, tuple[str, Keys]] = {}
        """Claims that wait, in order, with their pods."""
        self.called: set[str] = set()
        """Pods whose turn it is: they wait for none of those who still wait."""
        self.reserved: set[str] = set()
        """Keys of those who wait: who came later comes later."""
        self.stuck: set[str] = set()
        """Pods of ``unserved`` for which the plugin took too long."""

    def blocked(self, uid: str, keys: Keys) -> bool:
        """Return whether a pod has to wait for others; those who came later do not count."""
        if uid in self.begun:
            return False
        waits = uid not in self.called and not keys.isdisjoint(self.reserved)
        return waits or any(other != uid and not keys.isdisjoint(theirs) for other, theirs in self._all())

    def call(self) -> list[str]:
        """Return the claims that need not wait any longer: no two that meet."""
        ready, still, taken = [], {}, set[str]()
        for claim, (uid, keys) in self.held.items():
            self.called.add(uid)
            if keys.isdisjoint(taken) and not self.blocked(uid, keys):
                ready.append(claim)
            else:
                self.called.discard(uid)
                still[claim] = (uid, keys)
            taken |= keys
        self.held = still
        self.reserved = {key for _, keys in still.values() for key in keys}
        return ready

    def waiting_for(self, uid: str) -> list[str]:
        """Return the claims that wait for a pod."""
        return [claim for claim, (_, keys) in self.held.items() if not keys.isdisjoint(self.unserved[uid])]

    def _all(self) -> Iterator[tuple[str, Keys]]:
        yield from self.unserved.items()
        yield from self.begun.items()
        yield from self.starting.items()

    def of_pod(self, uid: str) -> Keys:
        """Return the keys that other pods must not have while this one is on the node."""
        return frozenset().union(*(pods.get(uid, ()) for pods in (self.unserved, self.begun, self.starting)))


class PluginHandoffs:
    """The ways to all nodes. Nodes whose waiting claims have to be looked at again collect in ``freed``.

    ``patience`` is how many seconds a device plugin may take before it is told that it does not serve a pod.
    """

    def __init__(self, patience: float = PATIENCE) -> None:
        self._patience = patience
        self._handoffs: dict[str, PluginHandoff] = {}
        self._at: dict[str, set[str]] = {}
        """Nodes to which a pod may be on its way, by uid."""
        self._families: dict[str, tuple[str, ...]] = {}
        """Whose plugins have not served a pod yet, by uid."""
        self._fresh: list[tuple[str, str, bool]] = []
        self._timers: list[tuple[float, str, str, bool]] = []
        """When a pod (node, uid) has taken too long."""
        self._reported: list[Stuck] = []
        self.freed: set[str] = set()

    @property
    def stuck(self) -> int:
        """How many pods their device plugins do not serve."""
        return sum(len(way.stuck) for way in self._handoffs.values())

    def pod(self, uid: str, view: PodView | None) -> None:
        """Learn a pod's state, None if it is gone."""
        bound = view is not None and view.node
        if view is not None and not bound:
            return  # what has begun may still become a binding
        keys = frozenset(key for _, key in view.unserved) if view is not None else frozenset[str]()
        starting = frozenset(view.until_running) if view is not None else frozenset[str]()
        for node in self._at.pop(uid, set()) | ({str(bound)} if keys or starting else set()):
            here = node == bound
            self._seen(node, uid, keys if here else frozenset(), starting if here else frozenset())
        if view is not None and (keys or starting):
            self._at[uid] = {view.node}
            self._families[uid] = tuple(dict.fromkeys(family for family, _ in view.unserved))
        else:
            self._families.pop(uid, None)

    def blocked(self, node: str, uid: str, keys: Keys) -> bool:
        """Return whether a pod has to wait before it is bound to a node."""
        way = self._handoffs.get(node)
        return way is not None and bool(keys) and way.blocked(uid, keys)

    def hold(self, node: str, claim: str, uid: str, keys: Keys) -> None:
        """Let a claim wait, and those after it that need the same."""
        way = self._way(node)
        way.held[claim] = (uid, keys)
        way.reserved |= keys
        way.called.discard(uid)
        for stuck in way.stuck:
            if not keys.isdisjoint(way.unserved[stuck]):
                self._report(node, stuck, [claim])

    def unhold(self, node: str, claim: str, uid: str) -> None:
        """A claim does not wait any more, nor is it its turn, whatever becomes of it."""
        way = self._handoffs.get(node)
        if way is not None and (way.held.pop(claim, None) is not None or uid in way.called):
            way.called.discard(uid)
            self.freed.add(node)

    def release(self, node: str) -> list[str]:
        """Return the claims that need not wait any longer, in order."""
        way = self._handoffs.get(node)
        return way.call() if way is not None else []

    def begin(self, node: str, uid: str, keys: Keys) -> None:
        """A binding begins, or may have been begun by a predecessor of this process."""
        if keys and uid not in self._way(node).unserved:
            self._way(node).begun[uid] = keys
            self._way(node).called.discard(uid)
            self._at.setdefault(uid, set()).add(node)

    def not_begun(self, node: str, uid: str) -> None:
        """The pod was not bound to the node, or was served at once."""
        way = self._handoffs.get(node)
        if way is None or way.begun.pop(uid, None) is None:
            return
        self._free(node, way)
        if uid not in way.unserved and uid in self._at:
            self._at[uid].discard(node)
            if not self._at[uid]:
                del self._at[uid]

    def is_on_its_way(self, node: str, uid: str) -> bool:
        """Return whether a plugin may still take the pod."""
        way = self._handoffs.get(node)
        return way is not None and (uid in way.begun or uid in way.unserved)

    def next_due(self) -> float | None:
        """Return when :meth:`expire` has to be called next, unix seconds; None: no timer is set."""
        return self._timers[0][0] if self._timers else None

    def expire(self, now: float) -> None:
        """End the patience with pods: those not served are reported, those not running no longer block others."""
        while self._timers and self._timers[0][0] <= now:
            _, node, uid, starts = heapq.heappop(self._timers)
            way = self._handoffs.get(node)
            if way is None:
                continue
            if not starts and uid in way.unserved and uid not in way.stuck:
                way.stuck.add(uid)
                self._report(node, uid, way.waiting_for(uid))
            elif starts and uid in way.starting:
                way.starting[uid] = frozenset()
                self._free(node, way)

    def take(self, now: float) -> list[Stuck]:
        """Return what is to be told now."""
        for node, uid, starts in self._fresh:
            heapq.heappush(self._timers, (now + self._patience, node, uid, starts))
        self._fresh.clear()
        reported, self._reported = self._reported, []
        return reported

    def _seen(self, node: str, uid: str, keys: Keys, starting: Keys) -> None:
        """A fact says that a pod is bound here, and not served while there are keys, or that it is not here."""
        way = self._way(node)
        if keys and uid not in way.unserved:
            self._fresh.append((node, uid, False))
        if starting and uid not in way.starting:
            self._fresh.append((node, uid, True))
        before = way.of_pod(uid)
        way.begun.pop(uid, None)
        if keys:
            way.unserved[uid] = keys
        else:
            way.unserved.pop(uid, None)
            way.stuck.discard(uid)
        if starting:
            way.starting.setdefault(uid, starting)
        else:
            way.starting.pop(uid, None)
        if before - way.of_pod(uid):
            self._free(node, way)
        elif not (way.unserved or way.begun or way.starting or way.held):
            del self._handoffs[node]

    def _free(self, node: str, way: PluginHandoff) -> None:
        if way.held:
            self.freed.add(node)

    def _report(self, node: str, uid: str, waiting: Sequence[str]) -> None:
        plugins = [BY_NAME[name].plugin.name for name in self._families.get(uid, ()) if name in BY_NAME]
        keys = sorted(self._handoffs[node].unserved[uid])
        self._reported.append(Stuck(uid, node, keys, list(dict.fromkeys(plugins)), waiting))

    def _way(self, node: str) -> PluginHandoff:
        way = self._handoffs.get(node)
        if way is None:
            way = self._handoffs[node] = PluginHandoff()
        return way
