"""The handoff of pods to device plugins, node by node: which pods are in it, and which claims wait for them.

A pod's handoff begins with its binding and ends when its fact shows that the plugin has served it and kubelet has
admitted it. Two pods that the plugin could mistake for one another
(:meth:`deviceshare.families.device_plugin.DevicePlugin.keys`) are never in handoff on one node together: the later one
waits, and those after it that have one of its keys. It also waits for pods on no node or on another one whose
annotations let the plugin select them, and for served pods that the plugin may still confuse with it, until they run,
at most for the patience.
"""

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import msgspec
from deviceshare.families import BY_NAME, calling
from deviceshare.model import ContainerGrant

from deviceshare_binder.core.views import PodView

PATIENCE = 60.0
"""Seconds after which an unserved pod is reported; kubelet asks the plugin at once, before it pulls images."""

BIND, SERVE, START = "bind", "serve", "start"
"""What a pod is to do before the patience with it ends: have a known result of its binding, be served, run."""

Keys = frozenset[str]
"""What a plugin identifies a pod by. No two plugins have a key in common."""


def keys_of(grants: Iterable[ContainerGrant]) -> Keys:
    """Return the handoff keys of a pod with these grants; an unknown family has none.

    Raises:
        FamilyError: a family has a bug.
    """
    by_family: dict[str, list[ContainerGrant]] = {}
    for grant in grants:
        by_family.setdefault(grant.family, []).append(grant)
    keys: set[str] = set()
    for name, held in by_family.items():
        if name in BY_NAME:
            with calling(name, "plugin.keys"):
                keys.update(BY_NAME[name].plugin.keys(held))
    return frozenset(keys)


class Stuck(NamedTuple):
    """A plugin does not serve a pod, or it is not known whether it was bound (``begun``); claims (ids) wait for it."""

    uid: str
    node: str
    keys: list[str]
    plugins: list[str]
    waiting: list[str]
    begun: bool = False


class PluginHandoff(msgspec.Struct, eq=False):
    """The handoff to the device plugins of one node."""

    unserved: dict[str, Keys] = {}
    """Pods, by uid, that are bound here and not served according to their facts."""
    selectable: dict[str, Keys] = {}
    """Pods, by uid, that are not bound here, and that the plugin may select by their annotations."""
    begun: dict[str, Keys] = {}
    """Pods, by uid, whose binding has begun and whose fact does not show its result yet."""
    begun_due: dict[str, float] = {}
    """The monotonic time at which the patience with each of them ends."""
    starting: dict[str, Keys] = {}
    """Pods, by uid, that are served and do not run yet; without keys once the patience is over."""
    held: dict[str, tuple[str, Keys]] = {}
    """Claims that wait, in order, with their pods."""
    called: set[str] = set()
    """Pods whose turn it is: they do not wait for claims that are still held."""
    reserved: set[str] = set()
    """Keys of the held claims: later pods with one of them wait, too."""
    due: dict[str, float] = {}
    """The monotonic time at which the patience with each pod of ``unserved`` and ``selectable`` ends."""
    stuck: set[str] = set()
    """Those whose patience is over."""

    @property
    def empty(self) -> bool:
        """Whether no pod is in handoff and no claim is held."""
        return not (self.unserved or self.selectable or self.begun or self.starting or self.held)

    def blocked(self, uid: str, keys: Keys) -> bool:
        """Return whether a pod has to wait for others; those that came later do not count."""
        if uid in self.begun:
            return False
        waits = uid not in self.called and not keys.isdisjoint(self.reserved)
        return waits or any(other != uid and not keys.isdisjoint(theirs) for other, theirs in self._all())

    def call(self) -> list[str]:
        """Return the claims that need not wait any longer; no two of them share a key."""
        ready: list[str] = []
        taken: set[str] = set()
        for claim, (uid, keys) in self.held.items():
            if keys.isdisjoint(taken):
                self.called.add(uid)
                if self.blocked(uid, keys):
                    self.called.discard(uid)
                else:
                    ready.append(claim)
            taken |= keys
            if taken >= self.reserved:
                break  # all others share a key with one of these
        for claim in ready:
            self.drop_held(claim)
        return ready

    def drop_held(self, claim: str) -> bool:
        """Remove a claim from those that are held; return whether it was."""
        held = self.held.pop(claim, None)
        if held is None:
            return False
        for key in held[1]:
            if not any(key in keys for _, keys in self.held.values()):
                self.reserved.discard(key)
        return True

    def end_begun(self, uid: str) -> bool:
        """Remove a pod from those whose binding has begun; return whether it was one."""
        self.begun_due.pop(uid, None)
        return self.begun.pop(uid, None) is not None

    def waiting_for(self, awaited: Keys) -> list[str]:
        """Return the claims that wait for a pod with these keys."""
        return [claim for claim, (_, keys) in self.held.items() if not keys.isdisjoint(awaited)]

    def to_serve(self, uid: str) -> Keys:
        """Return the keys by which the plugin may select a pod that it has not served."""
        return self.unserved.get(uid, frozenset()) | self.selectable.get(uid, frozenset())

    def _all(self) -> Iterator[tuple[str, Keys]]:
        for pods in (self.unserved, self.selectable, self.begun, self.starting):
            yield from pods.items()

    def of_pod(self, uid: str) -> Keys:
        """Return the keys that other pods must not have while this one is on the node."""
        pods = (self.unserved, self.selectable, self.begun, self.starting)
        return frozenset().union(*(keys.get(uid, ()) for keys in pods))


class PluginHandoffs:
    """The handoffs on all nodes.

    ``freed`` collects, in order, the nodes whose held claims are to be re-evaluated. ``patience`` is the time in
    seconds after which a pod that is not served is reported.
    """

    def __init__(self, patience: float = PATIENCE) -> None:
        self._patience = patience
        self._handoffs: defaultdict[str, PluginHandoff] = defaultdict(PluginHandoff)
        self._nodes: dict[str, dict[str, None]] = {}
        """Nodes where a pod may be in handoff, by uid."""
        self._selecting: dict[str, frozenset[str]] = {}
        """Nodes whose plugins may select a pod that is not bound there, by uid."""
        self._families: dict[str, tuple[str, ...]] = {}
        """The families whose plugins have not served a pod, by uid."""
        self._timers: list[tuple[float, str, str, str]] = []
        """The end of the patience with a pod: monotonic time, node, uid, and what it is to do."""
        self._stuck: list[Stuck] = []
        self.freed: dict[str, None] = {}

    @property
    def stuck(self) -> int:
        """The number of pods that their device plugins do not serve."""
        return sum(len(handoff.stuck) for handoff in self._handoffs.values())

    def pod(self, uid: str, view: PodView | None, now: float) -> None:
        """Apply a pod's state, None if it is gone, at a monotonic time."""
        self.select(uid, view.selectable if view is not None else (), now)
        bound = view.node if view is not None else ""
        if view is not None and not bound:
            return  # a binding that has begun may still succeed
        keys = frozenset(key for _, key in view.unserved) if view is not None else frozenset[str]()
        starting = frozenset(view.until_running) if view is not None else frozenset[str]()
        in_handoff = bool(keys or starting)
        for node in self._nodes.pop(uid, {}) | ({bound: None} if in_handoff else {}):
            here = node == bound
            self._seen(node, uid, keys if here else frozenset(), starting if here else frozenset(), now)
        if view is not None and in_handoff:
            self._nodes[uid] = {bound: None}
            self._families[uid] = tuple(dict.fromkeys(family for family, _ in view.unserved))
        elif uid not in self._selecting:
            self._families.pop(uid, None)

    def select(self, uid: str, selectable: Iterable[tuple[str, str, str]], now: float) -> None:
        """Apply which plugins may select a pod that is not bound to their node: node, family and key."""
        by_node: dict[str, set[str]] = {}
        for node, family, key in selectable:
            by_node.setdefault(node, set()).add(key)
            self._families[uid] = (family,)
        for node in sorted(self._selecting.pop(uid, frozenset()) | by_node.keys()):
            handoff = self._handoffs[node]
            before = handoff.of_pod(uid)
            self._await(node, uid, handoff.selectable, frozenset(by_node.get(node, ())), now)
            if before - handoff.of_pod(uid):
                self._free(node, handoff)
            self._drop_empty(node, handoff)
        if by_node:
            self._selecting[uid] = frozenset(by_node)
        elif uid not in self._nodes:
            self._families.pop(uid, None)

    def blocked(self, node: str, uid: str, keys: Keys) -> bool:
        """Return whether a pod has to wait before it is bound to a node."""
        handoff = self._handoffs.get(node)
        return handoff is not None and bool(keys) and handoff.blocked(uid, keys)

    def hold(self, node: str, claim: str, uid: str, keys: Keys, now: float) -> None:
        """Hold a claim, and later ones that share a key with it."""
        handoff = self._handoffs[node]
        handoff.held[claim] = (uid, keys)
        handoff.reserved |= keys
        handoff.called.discard(uid)
        for stuck in sorted(handoff.stuck):
            if not keys.isdisjoint(handoff.to_serve(stuck)):
                self._report(node, stuck, [claim])
        for begun, due in handoff.begun_due.items():
            if due <= now and not keys.isdisjoint(handoff.begun[begun]):
                self._report_begun(node, begun, [claim])

    def unhold(self, node: str, claim: str, uid: str) -> None:
        """A claim is no longer held, nor is it its turn."""
        handoff = self._handoffs.get(node)
        if handoff is not None and (handoff.drop_held(claim) or uid in handoff.called):
            handoff.called.discard(uid)
            self.freed[node] = None

    def release(self, node: str) -> list[str]:
        """Return the claims that need not wait any longer, in order."""
        handoff = self._handoffs.get(node)
        if handoff is None:
            return []
        ready = handoff.call()
        self._drop_empty(node, handoff)
        return ready

    def begin(self, node: str, uid: str, keys: Keys, now: float) -> None:
        """A binding begins, perhaps again, or may have been begun by a predecessor of this process."""
        if keys and uid not in self._handoffs[node].unserved:
            handoff = self._handoffs[node]
            if uid not in handoff.begun:
                handoff.begun_due[uid] = now + self._patience
                heapq.heappush(self._timers, (handoff.begun_due[uid], node, uid, BIND))
            handoff.begun[uid] = keys
            handoff.called.discard(uid)
            self._nodes.setdefault(uid, {})[node] = None

    def not_begun(self, node: str, uid: str) -> None:
        """The pod was not bound to the node, or was served at once."""
        handoff = self._handoffs.get(node)
        if handoff is None or not handoff.end_begun(uid):
            return
        self._free(node, handoff)
        if uid not in handoff.unserved and uid in self._nodes:
            self._nodes[uid].pop(node, None)
            if not self._nodes[uid]:
                del self._nodes[uid]
        self._drop_empty(node, handoff)

    def contains(self, node: str, uid: str) -> bool:
        """Return whether a plugin of the node may still take the pod."""
        handoff = self._handoffs.get(node)
        return handoff is not None and (uid in handoff.begun or uid in handoff.unserved)

    def next_due(self) -> float | None:
        """Return the monotonic time at which :meth:`expire` has to be called next, None if no timer is set."""
        # Most bindings have a result long before.
        while self._timers and not self._is_valid(*self._timers[0]):
            heapq.heappop(self._timers)
        return self._timers[0][0] if self._timers else None

    def _is_valid(self, due: float, node: str, uid: str, awaited: str) -> bool:
        """Return whether the patience with a pod still ends at this time."""
        handoff = self._handoffs.get(node)
        if handoff is None:
            return False
        if awaited == START:
            return uid in handoff.starting
        return (handoff.due if awaited == SERVE else handoff.begun_due).get(uid) == due

    def expire(self, now: float) -> None:
        """End the patience with pods: unserved ones are stuck, starting ones no longer block others.

        Of those whose binding has begun, only the claims that wait for them are reported.
        """
        while (due := self.next_due()) is not None and due <= now:
            _, node, uid, awaited = heapq.heappop(self._timers)
            handoff = self._handoffs[node]
            if awaited == SERVE:
                handoff.stuck.add(uid)
                self._report(node, uid, handoff.waiting_for(handoff.to_serve(uid)))
            elif awaited == BIND:
                self._report_begun(node, uid, handoff.waiting_for(handoff.begun[uid]))
            else:
                handoff.starting[uid] = frozenset()
                self._free(node, handoff)

    def report_again(self, nodes: Callable[[str], bool]) -> None:
        """Report the stuck pods of the chosen nodes once more: another replica reported them, or has ended."""
        for node, handoff in self._handoffs.items():
            if handoff.stuck and nodes(node):
                for uid in sorted(handoff.stuck):
                    self._report(node, uid, handoff.waiting_for(handoff.to_serve(uid)))

    def take_stuck(self) -> list[Stuck]:
        """Return the stuck pods to report, each once."""
        stuck, self._stuck = self._stuck, []
        return stuck

    def _seen(self, node: str, uid: str, keys: Keys, starting: Keys, now: float) -> None:
        """A fact shows that a pod is bound here, unserved if there are keys, or that it is not here."""
        handoff = self._handoffs[node]
        if starting and uid not in handoff.starting:
            heapq.heappush(self._timers, (now + self._patience, node, uid, START))
        before = handoff.of_pod(uid)
        handoff.end_begun(uid)
        self._await(node, uid, handoff.unserved, keys, now)
        if starting:
            handoff.starting.setdefault(uid, starting)
        else:
            handoff.starting.pop(uid, None)
        if before - handoff.of_pod(uid):
            self._free(node, handoff)
        self._drop_empty(node, handoff)

    def _await(self, node: str, uid: str, awaited: dict[str, Keys], keys: Keys, now: float) -> None:
        """Wait for a pod with these keys, or no longer if there are none; ``awaited`` are all that are waited for."""
        handoff = self._handoffs[node]
        if keys and uid not in awaited:
            handoff.due[uid] = now + self._patience
            heapq.heappush(self._timers, (handoff.due[uid], node, uid, SERVE))
        elif not keys and uid in awaited:
            del awaited[uid], handoff.due[uid]
            handoff.stuck.discard(uid)
        if keys:
            awaited[uid] = keys

    def _free(self, node: str, handoff: PluginHandoff) -> None:
        if handoff.held:
            self.freed[node] = None

    def _report(self, node: str, uid: str, waiting: list[str]) -> None:
        plugins = [BY_NAME[name].plugin.name for name in self._families.get(uid, ()) if name in BY_NAME]
        keys = sorted(self._handoffs[node].to_serve(uid))
        self._stuck.append(Stuck(uid, node, keys, list(dict.fromkeys(plugins)), waiting))

    def _report_begun(self, node: str, uid: str, waiting: list[str]) -> None:
        if waiting:
            self._stuck.append(Stuck(uid, node, sorted(self._handoffs[node].begun[uid]), [], waiting, begun=True))

    def _drop_empty(self, node: str, handoff: PluginHandoff) -> None:
        if handoff.empty and not handoff.called:
            self._handoffs.pop(node, None)
