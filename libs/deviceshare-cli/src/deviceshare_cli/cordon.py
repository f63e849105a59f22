"""``deviceshare cordon card`` and ``uncordon card``: keep cards from getting pods, by an annotation of their Node."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec
from deviceshare.families import FAMILIES, card_cordons
from deviceshare.model import Card, CardCordon, FormatError
from deviceshare.objects import decode_node
from deviceshare_bus.runtime.plugins import load_families
from deviceshare_cluster.interface import Cluster, ClusterError, Object

from deviceshare_cli import runfile
from deviceshare_cli.changing import connected
from deviceshare_cli.errors import CommandError

ATTEMPTS = 5
"""How often the annotation is read and written, if others change it meanwhile."""
SECONDS = 30.0
_SHOWN = 8


class Target(NamedTuple):
    """Where the Node is: the cluster of a running system, or a live cluster by kubeconfig and context."""

    run: str | None
    live: bool
    kubeconfig: str = ""
    context: str = ""


class Change(NamedTuple):
    """The change of the cordons of a node, and the words for a card in the output."""

    of: Callable[[str, tuple[CardCordon, ...]], tuple[CardCordon, ...]]
    word: str
    before: str
    known_only: bool
    """Whether the card has to be registered."""


def cordoning(by: str, reason: str, now: float) -> Change:
    """Return the change that cordons a card; of a cordoned card who, why and when are replaced."""
    since = datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def of(card: str, cordons: tuple[CardCordon, ...]) -> tuple[CardCordon, ...]:
        return (*(each for each in cordons if each.id != card), CardCordon(card, by, reason, since))

    return Change(of, "cordoned", "", known_only=True)


def uncordoning() -> Change:
    """Return the change that ends the cordon of a card."""

    def of(card: str, cordons: tuple[CardCordon, ...]) -> tuple[CardCordon, ...]:
        return tuple(each for each in cordons if each.id != card)

    return Change(of, "uncordoned", "already uncordoned", known_only=False)


async def change(target: Target, names: Sequence[str], wanted: Change) -> int:
    """Change the cordons of cards, given as NODE/ID or NODE/INDEX, and return the exit status. Raises CommandError."""
    cards = parse_cards(names)
    load_families()
    async with opened(target, system_of(target)) as cluster:
        for node, card in cards:
            print(await change_card(cluster, node, card, wanted))
    return 0


def parse_cards(names: Sequence[str]) -> list[tuple[str, str]]:
    """Return node and card of each name, NODE/ID or NODE/INDEX. Raises CommandError."""
    found = []
    for name in names:
        node, slash, card = name.partition("/")
        if not (node and slash and card):
            raise CommandError(f"{name}: expected NODE/UUID or NODE/INDEX, as in gpu-1/GPU-6272f32c or gpu-1/0")
        found.append((node, card))
    return found


def system_of(target: Target) -> runfile.Run | None:
    """Return the running system whose cluster is the target, None for the cluster of a kubeconfig.

    Raises CommandError.
    """
    return None if target.live else runfile.find_to_change(target.run)


@asynccontextmanager
async def opened(target: Target, run: runfile.Run | None) -> AsyncIterator[Cluster]:
    """Connect to the cluster; ``run``: that of :func:`system_of`.

    Raises CommandError, also for a request within that fails.
    """
    if run is not None and run.cluster:
        async with connected(run) as local:
            yield local
        return
    from deviceshare_cluster.kube import KubeCluster

    context = target.context or (run.target.partition(":")[2] if run is not None else "")
    try:
        async with AsyncExitStack() as stack:
            async with asyncio.timeout(SECONDS):
                cluster = await stack.enter_async_context(KubeCluster(target.kubeconfig, context, name="deviceshare"))
            yield cluster
    except ClusterError as error:
        raise CommandError(str(error)) from None
    except TimeoutError:
        raise CommandError(f"the API server did not answer within {SECONDS:g} s") from None


async def change_card(cluster: Cluster, node: str, card: str, wanted: Change) -> str:
    """Change the cordon of a card and return what was done. Raises CommandError, ClusterError."""
    for _ in range(ATTEMPTS):
        found = await node_of(cluster, node)
        annotations = found["metadata"].get("annotations") or {}
        current = annotations.get(card_cordons.ANNOTATION)
        cordons = cordons_of(found)
        identity = identify(found, card, wanted)
        cards = cards_of(found)
        # Entries written by hand may name a card by its index.
        _, resolved, unknown = card_cordons.resolve(cordons, cards)
        kept = (*resolved, *(each for each in cordons if each.id in unknown))
        after = wanted.of(identity, kept)
        if set(after) == set(kept) and wanted.before:
            _check_others(annotations, node, identity, cards)
            return f"{node}/{identity} {wanted.before}"
        value = card_cordons.write(after)
        written = await cluster.annotate(
            "Node", "", node, {card_cordons.ANNOTATION: value}, expected={card_cordons.ANNOTATION: current}
        )
        if written is not None and written.get(card_cordons.ANNOTATION) == value:
            if wanted.before:
                _check_others(written, node, identity, cards)
            return f"{node}/{identity} {wanted.word}"
    raise CommandError(f"{node}: the annotation {card_cordons.ANNOTATION} keeps changing: try again")


async def node_of(cluster: Cluster, name: str) -> Object:
    """Return a Node. Raises CommandError if there is none, ClusterError."""
    found = await cluster.get("Node", "", name)
    if found is None:
        raise CommandError(f'nodes "{name}" not found')
    return found


def cards_of(node: Object) -> tuple[Card, ...]:
    """Return the cards that a Node lists."""
    return decode_node(msgspec.json.encode(node)).cards


def cordons_of(node: Object) -> tuple[CardCordon, ...]:
    """Return the cordons that the annotation has. Raises CommandError: what cannot be read would be lost."""
    metadata = node["metadata"]
    try:
        cordons, problems = card_cordons.of_node(metadata.get("annotations") or {}, f"Node {metadata['name']}")
    except FormatError as error:
        raise CommandError(str(error)) from None
    if problems:
        raise CommandError(str(problems[0]))
    return cordons


def _check_others(annotations: Mapping[str, str], node: str, identity: str, cards: Sequence[Card]) -> None:
    """Raise CommandError if another annotation keeps an uncordoned card cordoned."""
    for cordon in (cordon for family in FAMILIES for cordon in family.cordoned(annotations)):
        if cordon.id == identity and any(card.id == identity for card in cards):
            raise CommandError(f"{node}/{identity} stays cordoned: the annotation {cordon.by} of the node names it")


def identify(node: Object, card: str, wanted: Change) -> str:
    """Return the id of a card that is named by its id or index. Raises CommandError for an unknown card.

    An index that several cards have is an error as well.
    """
    name, cards = node["metadata"]["name"], cards_of(node)
    _, found, unknown = card_cordons.resolve((CardCordon(card),), cards)
    if len(found) > 1:
        raise CommandError(f"node {name} has several cards {card}, use an id: {shown([each.id for each in found])}")
    if found:
        return found[0].id
    # The cards of some families are not in the Node.
    if not cards or not (unknown and wanted.known_only) or any(each.id == card for each in cordons_of(node)):
        return card
    raise CommandError(f"node {name} has no card {card}: it has {shown([each.id for each in cards])}")


def shown(ids: Sequence[str]) -> str:
    """Return the first of these ids, for messages."""
    return ", ".join(ids[:_SHOWN]) + (", …" if len(ids) > _SHOWN else "")
