"""``deviceshare simulate cluster``: reads the cluster and the pods, and simulates each policy."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from deviceshare.conf import SchedulerConf
from deviceshare.model import ConfigError, ConfigFact, Fact, InputError, PodFact, PodUid, Synced
from deviceshare.objects import KINDS
from deviceshare.policies import POLICIES
from deviceshare_bus.messages.subjects import SYNCED
from deviceshare_bus.messages.subjects import fact as fact_subject
from deviceshare_bus.runtime.plugins import load_families
from deviceshare_cluster.interface import Object
from deviceshare_localcluster import Manifests

from deviceshare_cli.errors import CommandError
from deviceshare_cli.loading import read, read_conf
from deviceshare_cli.notices import to_stderr
from deviceshare_cli.output import indented_json
from deviceshare_cli.plots import write
from deviceshare_cli.pods import SCHEDULERS, other_schedulers
from deviceshare_cli.reading.kube_objects import list_kinds
from deviceshare_cli.reading.opening import Source, opened
from deviceshare_cli.reading.reader import StoredMessage
from deviceshare_cli.reading.state import PLACEMENT_STREAMS
from deviceshare_cli.simulate import plan_report, report
from deviceshare_cli.simulate.candidates import PodObjects
from deviceshare_cli.simulate.defragmentation import Defragmentation, defragmentation
from deviceshare_cli.simulate.facts import ADDED, Inventory, decoded, messages
from deviceshare_cli.simulate.objects import ObjectMaker, copies, only_kinds
from deviceshare_cli.simulate.options import parse_names
from deviceshare_cli.simulate.player import Player, created_again
from deviceshare_cli.simulate.progress import Progressed, progress_bar
from deviceshare_cli.simulate.removal import Removal, removal
from deviceshare_cli.simulate.results import Changes, Result, result, usage
from deviceshare_cli.simulate.volumes import with_phases
from deviceshare_cli.whatif.addition import Addition, added_nodes
from deviceshare_cli.whatif.manifests import Candidate, node_warnings, only_on
from deviceshare_cli.whatif.unknown_claims import without_unknown_claims

CONFIGURED = "configured"
"""The name of the policy that the configuration selects."""
MAX_SHOWN = 20
"""The most warnings that are printed."""
REJECTED_STATUS = 3
"""The exit status if manifests of the directory were rejected, as of ``up``."""


def policies(text: str) -> tuple[str, ...]:
    """Return the policies of a list, ``all`` for those that the product has. Raises CommandError."""
    return POLICIES if text == "all" else parse_names(text, (CONFIGURED, *POLICIES), "--policy")


class SimulateOptions(NamedTuple):
    """What is simulated. ``directory``: that of a local cluster; None: a running system, or a snapshot of one."""

    directory: Path | None
    source: Source
    pods: tuple[str, ...] = ()
    copies: int = 1
    policies: tuple[str, ...] = (CONFIGURED,)
    conf: Path | None = None
    defragment: bool = False
    moves: int | None = None
    """The most moves of a plan, None for one percent of the placed pods with cards."""
    without: tuple[str, ...] = ()
    """The nodes that are gone, whose pods are what is asked about, beside those of ``pods``."""
    addition: Addition = Addition()
    """The nodes that there are more; the pods that wait without them are what is asked about as well."""
    context: str | None = None
    """The context of the kubeconfig, '' for the current one, of a live cluster; None: it is not read."""


class InitialCluster(NamedTuple):
    """A cluster before the simulation, and how the facts of further objects are made of manifests.

    ``own``: the pods to place that the directory holds, if these are what is asked about; ``pods``: the objects of its
    pods.
    """

    stored: list[StoredMessage]
    now: float
    add: Callable[[Manifests, Player], dict[str, Fact]]
    own: frozenset[PodUid]
    pods: PodObjects
    rejected: int


async def simulate_cluster(options: SimulateOptions, *, json: bool, plot: Path | None) -> int:
    """Simulate, print the results, and return the exit status. Raises CommandError."""
    try:
        load_families()
        conf, warnings = read_conf(options.conf) if options.conf is not None else (None, ())
    except ConfigError as error:
        raise CommandError(" ".join(str(error).split())) from None
    for warning in warnings:
        to_stderr(f"warning: {warning}")
    if options.directory is not None:
        cluster = _of_directory(options.directory, conf)
    elif options.context is not None:
        cluster = await _of_kube(options.context, conf)
    else:
        cluster = await _of_system(options.source, with_pods=options.defragment or bool(options.without))
    if options.defragment:
        planned = defragment(cluster, options, conf)
        print(indented_json(plan_report.as_json(planned)) if json else plan_report.as_text(planned))
        return REJECTED_STATUS if cluster.rejected else 0
    found = simulate(cluster, options, conf)
    if plot is not None:
        for name, each in report.plots(found):
            write(each, plot / f"{name}.svg")
    print(indented_json(report.as_json(found)) if json else report.as_text(found))
    return REJECTED_STATUS if cluster.rejected else 0


def simulate(cluster: InitialCluster, options: SimulateOptions, conf: ConfigFact | None) -> list[Result]:
    """Return the result of each policy. Raises CommandError."""
    player = Player(cluster.stored, cluster.now)
    asked = _asked(cluster, options, player)
    of_directory, changes = options.directory is not None, bool(options.without or options.addition.number)
    uids = _pods_of(asked) if options.pods or changes else cluster.own
    if not (uids or changes):
        raise CommandError("there are no pods to place: --pods names the files or directories of further ones")
    results = []
    for number, policy in enumerate(options.policies):
        if number:
            player = Player(cluster.stored, cluster.now)
        _configure(player, conf, policy)
        name = _name(policy, player.conf)
        if of_directory and (options.pods or changes):
            player.settle()  # none of its pods has a node yet
        removed = removal(player.scheduler, options.without, cluster.pods)
        again = _take_down(player, removed, cluster.now)
        if not of_directory:
            player.settle()
        before = usage(player.stored(), cluster.now)
        added = added_nodes(player.nodes, options.addition)
        expected = uids | _pods_of(again) | (player.waiting.keys() if added else set())
        further = {fact_subject("node", node.name): node for node in added}
        _create(player, {**further, **again, **asked}, policy)
        with progress_bar(len(expected), name) as progress:
            player.settle(partial(_show, progress, name, -len(player.placed)))
        results.append(result(name, player, expected, before, cluster.now, Changes(removed, options.addition)))
    return results


def defragment(cluster: InitialCluster, options: SimulateOptions, conf: ConfigFact | None) -> Defragmentation:
    """Return a plan of moves for the cluster, and which of its waiting pods and those of ``--pods`` it places.

    Raises CommandError.
    """
    (policy,) = options.policies
    unsettled = Player(cluster.stored, cluster.now)
    _configure(unsettled, conf, policy)
    asked = _asked(cluster, options, unsettled)

    def settled() -> Player:
        player = Player(cluster.stored, cluster.now)
        _configure(player, conf, policy)
        player.settle()
        return player

    return defragmentation(
        settled,
        lambda player: _create(player, asked, policy),
        cluster.pods,
        _name(policy, unsettled.conf),
        options.moves,
    )


def _pods_of(facts: Mapping[str, Fact]) -> frozenset[PodUid]:
    return frozenset(fact.uid for fact in facts.values() if isinstance(fact, PodFact))


def _take_down(player: Player, removed: Removal, now: float) -> dict[str, Fact]:
    """Delete nodes with their pods; return the facts of the pods that are created again, without unknown volumes."""
    player.delete([*removed.movable, *removed.lost], removed.nodes)
    again = (created_again(pod, created=now) for pod in removed.movable)
    return _without_unknown_claims({fact_subject("pod", pod.uid): pod for pod in again}, player, set())


def _asked(cluster: InitialCluster, options: SimulateOptions, player: Player) -> dict[str, Fact]:
    """Return the facts of ``--pods``, with names that no object of the player has. Raises CommandError."""
    asked: dict[str, Fact] = {}
    if options.pods:
        manifests = read(options.pods)
        if manifests.problems:
            raise CommandError("; ".join(map(str, manifests.problems)))
        for copy in copies(manifests, options.copies, player.names):
            asked |= cluster.add(copy, player)
    return asked


def _configure(player: Player, conf: ConfigFact | None, policy: str) -> None:
    player.configure(conf, "" if policy == CONFIGURED else policy)


def _create(player: Player, asked: Mapping[str, Fact], policy: str) -> None:
    """Create what is asked about, which may be another configuration."""
    player.create(asked)
    _configure(player, None, policy)


def _show(progress: Progressed, name: str, offset: int, placed: int) -> None:
    progress(offset + placed, name)


def _name(policy: str, conf: SchedulerConf) -> str:
    return f"{CONFIGURED} ({conf.policy or 'none'})" if policy == CONFIGURED else policy


def _of_directory(directory: Path, conf: ConfigFact | None) -> InitialCluster:
    """Return the cluster that ``up`` would make of a directory."""
    now = time.time()
    maker, inventory = _maker(now, (), makes_queues=True), Inventory(SCHEDULERS, conf)
    maker.make(read([str(directory)]))
    facts = inventory.exist((maker.objects | with_phases(maker.objects.values())).values())
    warnings = [*maker.warnings, *inventory.remarks]
    _print_limited([f"rejected: {line}" for line in maker.rejected] + [f"warning: {line}" for line in warnings])
    own = frozenset(fact.uid for fact in facts.values() if isinstance(fact, PodFact) and not (fact.node or fact.ended))

    printed: set[str] = set()

    def add(manifests: Manifests, _player: Player) -> dict[str, Fact]:
        return inventory.created(_created(maker, manifests, SCHEDULERS, printed))

    pods = _pod_objects((obj for obj in maker.objects.values() if obj["kind"] == "Pod"), SCHEDULERS)
    return InitialCluster(messages({**facts, SYNCED: Synced()}), now, add, own, pods, len(maker.rejected))


async def _of_system(source: Source, *, with_pods: bool) -> InitialCluster:
    """Return the cluster of a running system or a snapshot; ``with_pods``: with the objects of its pods."""
    async with opened(source) as reader:
        stored = await reader.messages(PLACEMENT_STREAMS)
        classes = await reader.objects("PriorityClass")
        served, now = reader.target.schedulers, reader.now
        pods = await reader.objects("Pod") if with_pods else ()
    return _existing(stored, now, classes, pods, served)


async def _of_kube(context: str, conf: ConfigFact | None) -> InitialCluster:
    """Return the cluster of a context of the kubeconfig, '' for the current one, as inventory reads it."""
    objects = await list_kinds(KINDS, "simulate", context=context)
    inventory = Inventory(SCHEDULERS, conf)
    facts = inventory.exist(chain.from_iterable(objects.values()))
    _print_limited([f"warning: {line}" for line in inventory.remarks])
    stored = messages({**facts, SYNCED: Synced()})
    return _existing(stored, time.time(), objects["PriorityClass"], objects["Pod"], SCHEDULERS)


def _existing(
    stored: list[StoredMessage], now: float, classes: Sequence[Object], pods: Iterable[Object], served: Sequence[str]
) -> InitialCluster:
    """Return a cluster whose pods exist: what is asked about is created in it."""
    maker = _maker(now, classes, makes_queues=False)
    printed: set[str] = set()

    def add(manifests: Manifests, player: Player) -> dict[str, Fact]:
        for problem in only_kinds(manifests, ADDED):
            raise CommandError(problem)
        # Claims that do not exist yet are not evaluated.
        created = [each for each in _created(maker, manifests, served, printed) if each["kind"] in ADDED]
        try:
            facts = decoded(created)
        except InputError as error:
            raise CommandError(str(error)) from None
        return _without_unknown_claims(
            {key: fact for key, fact in facts.items() if not isinstance(fact, PodFact) or fact.scheduler in served},
            player,
            printed,
        )

    return InitialCluster(stored, now, add, frozenset(), _pod_objects(pods, served), 0)


def _pod_objects(pods: Iterable[Object], schedulers: Sequence[str]) -> PodObjects:
    return PodObjects({PodUid(pod["metadata"].get("uid", "")): pod for pod in pods}, schedulers)


def _maker(now: float, classes: Sequence[Object], *, makes_queues: bool) -> ObjectMaker:
    return ObjectMaker(time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now)), classes, makes_queues=makes_queues)


def _created(maker: ObjectMaker, manifests: Manifests, served: Sequence[str], printed: set[str]) -> list[Object]:
    """Return the objects that are asked about; a pod with a node waits for it. Raises CommandError.

    ``printed``: the warnings of the copies before, which are not printed again; not empty after the first one.
    """
    rejected, warned = len(maker.rejected), len(maker.warnings)
    objects = maker.make(manifests)
    if lines := maker.rejected[rejected:]:
        raise CommandError("; ".join(lines))
    found = [] if printed else maker.warnings[warned:]
    for manifest in manifests.manifests:
        found += (manifest.located(field, text) for field, text in other_schedulers(manifest.object, served))
        found += node_warnings(manifest)
    _print_limited([f"warning: {line}" for line in dict.fromkeys(found) if line not in printed])
    printed.update(found, ("",))
    return [_waiting(each) if each["kind"] == "Pod" else each for each in objects]


def _waiting(pod: Object) -> Object:
    """Return a pod that has no node yet; one with ``spec.nodeName`` waits for this node."""
    spec = {key: value for key, value in pod["spec"].items() if key != "nodeName"}
    if node := pod["spec"].get("nodeName"):
        spec["affinity"] = only_on(node, spec.get("affinity") or {})
    return {**pod, "spec": spec, "status": {}}


def _without_unknown_claims(facts: Mapping[str, Fact], player: Player, printed: set[str]) -> dict[str, Fact]:
    pods = {subject: fact for subject, fact in facts.items() if isinstance(fact, PodFact)}
    known = without_unknown_claims([Candidate("", None, tuple(pods.values()), ())], player.catalog)
    if known.warning and known.warning not in printed:
        printed.add(known.warning)
        to_stderr(f"warning: {known.warning}")
    return {**facts, **dict(zip(pods, known.candidates[0].pods, strict=True))}


def _print_limited(lines: Sequence[str]) -> None:
    for line in lines[:MAX_SHOWN]:
        to_stderr(line)
    if len(lines) > MAX_SHOWN:
        to_stderr(f"and {len(lines) - MAX_SHOWN} more lines")
