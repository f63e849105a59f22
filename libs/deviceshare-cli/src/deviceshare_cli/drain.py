"""``deviceshare drain card``: cordon cards and evict their pods, as ``kubectl drain`` does with a node.

The pods are those that :mod:`.card_holders` finds. Source of the rules which pods are evicted: Kubernetes
staging/src/k8s.io/kubectl/pkg/drain (filters.go, drain.go). Differences: a pod counts as one of
a DaemonSet by its owner and its node affinity, not by a DaemonSet that exists; the pause after a refusal grows; pods
are read again at the end, since some may have been bound while the card was being cordoned.
"""

import asyncio
from asyncio import timeout as time_limit
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from itertools import count
from typing import NamedTuple

import msgspec
from deviceshare.model import Backoff, InputError, PodFact, PodUid
from deviceshare.objects import decode_disruption_budget
from deviceshare_bus.runtime.plugins import load_families
from deviceshare_cluster.eviction import SEVERAL_BUDGETS, EvictState
from deviceshare_cluster.interface import Cluster, ClusterError, Object
from deviceshare_metrics.api import is_whole

from deviceshare_cli.card_holders import CardHolders, CardName, PodOnCard, SystemView, card_holders, system_view
from deviceshare_cli.cordon import (
    Change,
    Target,
    cards_of,
    change_card,
    cordons_of,
    identify,
    node_of,
    opened,
    parse_cards,
    shown,
    system_of,
)
from deviceshare_cli.errors import CommandError
from deviceshare_cli.notices import to_stderr
from deviceshare_cli.reading.installed import installed_run
from deviceshare_cli.recreation import DAEMON_SET, NO_CONTROLLER, STATIC, empty_dirs, obstacle_to_recreate, read_parts

RETRY = Backoff(1.0, 15.0)
"""Seconds until an eviction is requested again that a budget does not allow, or that failed."""
POLL_SECONDS = 1.0
"""Seconds between two looks whether a pod is gone, as by kubectl."""
MAX_ROUNDS = 10
"""How often the pods of the cards are read, if others come meanwhile."""
MAX_RETRIES = 10
"""How often in a row a request is repeated that fails: for nearly two minutes."""
STILL_THERE = "terminating"

ReadSystem = Callable[[], Awaitable[SystemView]]
"""Asks a running system which cards there are, and which of them pods have. Raises CommandError."""


class DrainOptions(NamedTuple):
    """The options of kubectl drain. ``timeout`` in seconds, 0 for none; ``grace``: None for that of each pod."""

    ignore_daemonsets: bool = False
    force: bool = False
    delete_emptydir_data: bool = False
    grace: int | None = None
    timeout: float = 0.0
    dry_run: bool = False


async def drain(
    target: Target,
    names: Sequence[str],
    cordoning: Change,
    options: DrainOptions,
    server: str | None,
    token: str | None,
) -> int:
    """Cordon cards, given as NODE/ID or NODE/INDEX, and evict their pods; return the exit status.

    ``server``, ``token``: the metrics service of the system that runs in a live cluster. Raises CommandError.
    """
    cards = parse_cards(names)
    load_families()
    run = system_of(target)
    async with opened(target, run) as cluster:
        if run is None and server is not None:
            run = await installed_run(server, token or "", target.kubeconfig, target.context)
        read_system = partial(system_view, run.endpoint) if run is not None else None
        return await drain_cards(cluster, cards, cordoning, options, read_system)


async def drain_cards(
    cluster: Cluster,
    cards: Sequence[CardName],
    cordoning: Change,
    options: DrainOptions,
    read_system: ReadSystem | None = None,
) -> int:
    """See :func:`drain`; ``read_system``: None without a running system. Raises CommandError, ClusterError."""
    nodes = {name: await node_of(cluster, name) for name, _ in cards}
    found = list(dict.fromkeys((name, _card(nodes[name], card, cordoning)) for name, card in cards))
    draining = _Drain(cluster, options, read_system)
    try:
        async with time_limit(options.timeout or None) as limit:
            await draining.check([(name, card) for name, card in found if not cards_of(nodes[name])])
            for node, card in found:
                dry = f"{node}/{card} cordoned (dry run)"
                _show(dry if options.dry_run else await change_card(cluster, node, card, cordoning))
            await draining.of_cards(found)
    except ClusterError as error:
        draining.failures.append(str(error))
    except TimeoutError:
        if not limit.expired():
            raise
        draining.failures.append(f"the timeout of {options.timeout:g} s is over")
    except asyncio.CancelledError:  # by Ctrl-C
        draining.failures.append("interrupted")
        draining.report(found)
        raise
    return draining.report(found)


def _card(node: Object, card: str, cordoning: Change) -> str:
    """Return the id of a card. Raises CommandError, also if the cordons of its node cannot be read."""
    cordons_of(node)
    name = node["metadata"]["name"]
    if is_whole(card) or is_whole(card.rpartition("-")[0]):
        raise CommandError(
            f"{name}/{card} is no card: kubelet chooses which ones a pod gets of this resource; "
            f"`kubectl drain {name}` evicts the pods of all"
        )
    found = identify(node, card, cordoning)
    if card.isdecimal() and not any(each.id == found for each in cards_of(node)):
        raise CommandError(f"{name}/{card}: node {name} does not list its cards by index: name the card by its id")
    return found


class _Drain:
    """What is done with the pods of some cards."""

    def __init__(self, cluster: Cluster, options: DrainOptions, read_system: ReadSystem | None) -> None:
        self._cluster, self._options, self._read_system = cluster, options, read_system
        self.evicted: set[PodUid] = set()
        self.ignored: set[PodUid] = set()
        self._gone: set[PodUid] = set()
        """Pods that were gone before they were evicted."""
        self.failures: list[str] = []
        """Why pods were not evicted."""
        self.doubts: list[str] = []
        """Why other pods may have the cards, as of the last look: no reason to leave the known ones."""
        self._warned: set[str] = set()
        self.unread: dict[str, str] = {}
        """Pods whose cards cannot be read, as of the last look, and why, by namespace and name."""
        self.pending: dict[str, str] = {}
        """The pods that are not gone yet, and why, by namespace and name."""

    def report(self, cards: Sequence[CardName]) -> int:
        """Print what was done and what was not; return the exit status."""
        failures = [
            *self.failures,
            *self.doubts,
            *(f"pod {ref} is still there: {why}" for ref, why in self.pending.items()),
        ]
        for line in failures:
            to_stderr(f"error: {line}")
        titles = ", ".join(f"{node}/{card}" for node, card in cards)
        done = f"{len(self.evicted)} pod{'' if len(self.evicted) == 1 else 's'} evicted"
        done += f", {len(self.ignored)} ignored" if self.ignored else ""
        done += f", {len(self.unread)} may have it" if self.unread else ""
        done += " (dry run)" if self._options.dry_run else ""
        if failures or self.unread:
            to_stderr(f"error: {titles} not drained: {done}")
            return 1
        _show(f"{titles} drained: {done}")
        return 0

    async def check(self, cards: Sequence[CardName]) -> None:
        """Raise CommandError if one of the cards, which their nodes do not list, is not known. Raises ClusterError."""
        if not cards:
            return
        objects, view = await self._all_pods(), await self._view(())
        for node, card in cards:
            others = sorted(each for on, each in view.cards if on == node)
            if (node, card) in view.cards:
                continue
            if others or not card_holders(objects, [(node, card)], view).pods:
                why = f"it has {shown(others)}" if others else "it lists no cards, and no pod names this one"
                raise CommandError(f"node {node} has no card {card}: {why}")

    async def of_cards(self, cards: Sequence[CardName]) -> None:
        """Evict the pods of cards until none is left, or some were not evicted. Raises ClusterError.

        The bindings that were under way when the cards were cordoned have a pause in which their pods appear.
        """
        looked = False
        for _ in range(MAX_ROUNDS):
            pods = [each for each in await self._pods(cards) if each.fact.uid not in self.evicted | self.ignored]
            self.failures += [line for each in pods for line in self._refusals(each)]
            pods = [each for each in pods if each.fact.uid not in self.ignored]
            if self.failures or (not pods and (looked or self._options.dry_run)):
                return
            looked = not pods
            if looked:
                await asyncio.sleep(POLL_SECONDS)
                continue
            await asyncio.gather(*(self._evict(each.fact) for each in pods))
            if self._options.dry_run or self.failures:
                return
        self.failures.append(f"pods were bound to the cards {MAX_ROUNDS} times after others had gone")

    async def _pods(self, cards: Sequence[CardName]) -> list[PodOnCard]:
        """Return the pods that have a share of one of the cards, in the order of their names."""
        found = await self._holders(cards)
        if found.unseen:  # The running system may not have read the latest pods yet.
            await asyncio.sleep(POLL_SECONDS)
            found = await self._holders(cards)
        if found.unseen:
            self._doubt(f"the running system does not show these pods of the nodes: {shown(found.unseen)}")
        warnings = [
            *(
                f"pod {ref} may have a share, since its cards cannot be read: {why}"
                for ref, why in found.unread.items()
            ),
            *(f"pod {ref} stays: it names the card, and requests no device of the kind" for ref in found.copied),
        ]
        for line in warnings:
            if line not in self._warned:
                to_stderr(f"Warning: {line}")
        self._warned.update(warnings)
        self.unread = found.unread
        return found.pods

    async def _holders(self, cards: Sequence[CardName]) -> CardHolders:
        """Look for the pods of cards, in a thread: many large annotations take seconds, and a timeout ends the wait."""
        objects, view = await self._all_pods(), await self._view(cards)
        return await asyncio.to_thread(card_holders, objects, cards, view)

    async def _view(self, cards: Sequence[CardName]) -> SystemView:
        """Return what the running system knows, nothing without one, or if it does not answer.

        Doubts are noted: no answer, or one that has nothing of ``cards``, as of the system of another cluster.
        """
        self.doubts = []
        if self._read_system is None:
            return SystemView()
        try:
            view = await self._read_system()
        except CommandError as error:
            self._doubt(str(error))
            return SystemView()
        if lacking := set(cards) - view.cards.union(*view.held.values()):
            self._doubt(f"the running system does not know {shown(sorted('/'.join(each) for each in lacking))}")
        return view

    def _doubt(self, why: str) -> None:
        self.doubts.append(f"pods whose annotations were changed may be missed: {why}")

    async def _all_pods(self) -> list[Object]:
        tries = 0
        while True:
            try:
                return await self._cluster.list("Pod")
            except ClusterError as error:
                if error.final or tries == MAX_RETRIES:
                    raise
                pause = RETRY.delay(tries)
                _show(f"pods cannot be listed: {error}; retry in {pause:g} s")
            tries += 1
            await asyncio.sleep(pause)

    def _refusals(self, pod: PodOnCard) -> list[str]:
        """Return why a pod is not evicted; it is noted if it is to be left where it is."""
        fact, options, owners = pod.fact, self._options, "metadata.ownerReferences"
        parts = read_parts(pod.obj)
        obstacle = obstacle_to_recreate(fact, parts)
        if parts is None:
            return [f"pod {fact.ref}: its object cannot be read, so that it is not known what it would lose"]
        if obstacle == STATIC:
            self.ignored.add(fact.uid)
            self.pending[fact.ref] = "it is a static pod of the kubelet, which no eviction ends"
            return []
        if obstacle == DAEMON_SET and not _is_pinned(fact):
            obstacle = NO_CONTROLLER
        if obstacle == DAEMON_SET:
            if options.ignore_daemonsets:
                self.ignored.add(fact.uid)
                to_stderr(f"Warning: ignoring pod {fact.ref}, a pod of a DaemonSet: it keeps the card")
                return []
            return [f"pod {fact.ref}: {owners}: a DaemonSet would create it again: --ignore-daemonsets leaves it there"]
        lines = []
        if obstacle == NO_CONTROLLER:
            if options.force:
                to_stderr(f"Warning: pod {fact.ref} is evicted, though no controller creates it again")
            else:
                lines.append(f"pod {fact.ref}: {owners}: no controller creates it again: --force evicts it")
        if (volumes := empty_dirs(parts)) and not options.delete_emptydir_data:
            field = f"spec.volumes[{volumes[0]}].emptyDir"
            lines.append(f"pod {fact.ref}: {field}: its data would be lost: --delete-emptydir-data evicts it")
        return lines

    async def _evict(self, pod: PodFact) -> None:
        """Evict a pod and wait until it is gone, or note why it is not evicted."""
        dry_run = " (dry run)" if self._options.dry_run else ""
        _show(f"evicting pod {pod.ref}{dry_run}")
        if await self._repeat(pod, self._request) and (dry_run or await self._repeat(pod, self._wait)):
            if pod.uid in self._gone:
                _show(f"pod {pod.ref} is gone")
            else:
                self.evicted.add(pod.uid)
                _show(f"pod {pod.ref} evicted{dry_run}")
        self.pending.pop(pod.ref, None)

    async def _repeat(self, pod: PodFact, attempt: Callable[[PodFact], Awaitable[str]]) -> bool:
        """Repeat an attempt until it returns '' and not why it is to be repeated; return False if it fails for good."""
        errors = 0
        for number in count():
            final = self._options.dry_run
            try:
                why = await attempt(pod)
                errors = 0
            except ClusterError as error:
                errors += 1
                why, final = f"not evicted: {error}", final or error.final or errors > MAX_RETRIES
            if not why:
                break
            if final:
                self.failures.append(f"pod {pod.ref} {why}")
                return False
            self.pending[pod.ref] = why
            pause = POLL_SECONDS
            if why != STILL_THERE:
                pause = RETRY.delay(number)
                _show(f"{pod.ref} {why}; retry in {pause:g} s")
            await asyncio.sleep(pause)
        return True

    async def _request(self, pod: PodFact) -> str:
        """Request an eviction; return what does not allow it now, '' if it is done. Raises ClusterError."""
        dry_run, grace = self._options.dry_run, self._options.grace
        answer = await self._cluster.evict(pod.namespace, pod.name, pod.uid, dry_run=dry_run, grace=grace)
        several = answer.state is EvictState.BLOCKED and answer.reason.startswith(SEVERAL_BUDGETS)
        if answer.state in (EvictState.REFUSED, EvictState.FORBIDDEN) or several:
            raise ClusterError(answer.reason, final=True)
        if answer.state is EvictState.GONE:
            self._gone.add(pod.uid)
        if answer.state is EvictState.BLOCKED:
            budget = await self._budget(pod) if "budget" in answer.reason else ""
            return f"blocked by {budget}" if budget else f"blocked: {answer.reason}"
        return ""

    async def _wait(self, pod: PodFact) -> str:
        """Return :data:`STILL_THERE` if a pod is still there. Raises ClusterError."""
        found = await self._cluster.get("Pod", pod.namespace, pod.name)
        return STILL_THERE if found is not None and found["metadata"].get("uid") == pod.uid else ""

    async def _budget(self, pod: PodFact) -> str:
        """Return the budget that allows no eviction of a pod, '' if it cannot be said."""
        try:
            budgets = await self._cluster.list("PodDisruptionBudget")
        except ClusterError:
            return ""
        found = [each for each in budgets if _selects(each, pod)]
        status = (found[0].get("status") or {}) if len(found) == 1 else {}
        if status.get("disruptionsAllowed") != 0:
            return ""
        most = max(0, status.get("expectedPods", 0) - status.get("desiredHealthy", 0))
        return f"PodDisruptionBudget {found[0]['metadata']['name']}: 0 of {most} allowed"


def _is_pinned(pod: PodFact) -> bool:
    """Return whether a pod requires its node by name, as the DaemonSet controller makes each of its pods do.

    The affinity of a bound pod cannot be changed, while its owner references can.
    """
    own = (pod.node,)
    terms = pod.ask.node_terms or ()
    return bool(terms) and all(any(each.field and each.values == own for each in term) for term in terms)


def _selects(budget: Object, pod: PodFact) -> bool:
    try:
        return decode_disruption_budget(msgspec.json.encode(budget)).selects(pod)
    except InputError:
        return False


def _show(line: str) -> None:
    """Print a line at once, although others follow much later."""
    print(line, flush=True)
