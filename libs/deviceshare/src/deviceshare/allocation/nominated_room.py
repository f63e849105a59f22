"""The room of nominated pods, which wait for other pods to go: what they take beyond what those pods hold.

Another pod must fit twice: while the pods that go are still there, and with the nominated pods in their place. So of
each amount the larger one counts, that of the pods that go or that of the nominated pods, as for init containers and
the other containers of a pod. Pods that go are charged as long as they hold anything; a nominated pod is charged only
the excess, which grows as they go.
"""

from collections import Counter
from collections.abc import Container, Iterable, Mapping
from typing import NamedTuple

from deviceshare.model import Card
from deviceshare.state import PODS, Holding, Usage, shares_by_card, usage_of


class NominatedRoom(NamedTuple):
    """What is charged to a node for its nominated pods.

    ``cards``: by id, where the usage of cards adds up; ``closed``: cards whose family counts their usage, so that it
    is not known what fits beside both: nothing is placed there. ``amounts``: of the node, with the number of pods.
    """

    cards: dict[str, Usage]
    closed: frozenset[str]
    amounts: tuple[tuple[str, int], ...]
    pods: int


NOTHING = NominatedRoom({}, frozenset(), (), 0)


def nominated_room(
    holdings: Mapping[str, Holding], cards: Iterable[Card], counted: Container[str]
) -> NominatedRoom | None:
    """Return what the nominated pods among those that hold something on a node are charged, None if there are none.

    ``holdings``: by uid; ``cards``: those of the node; ``counted``: the modes of cards whose family counts their usage.
    """
    waiting: dict[tuple[str, ...], list[Holding]] = {}
    for holding in holdings.values():
        if holding.waits_for:
            waiting.setdefault(holding.waits_for, []).append(holding)
    if not waiting:
        return None
    by_id = {card.id: card for card in cards}
    adding = {name: card for name, card in by_id.items() if card.mode not in counted}
    of_cards, of_node = Counter[tuple[str, int]](), Counter[str]()
    named = set[str]()
    replaced = set[str]()
    for uids, nominated in sorted(waiting.items()):
        going = [holdings[uid] for uid in uids if uid in holdings and uid not in replaced]
        replaced.update(uids)
        cards_after, node_after = _sums(nominated, adding)
        cards_before, node_before = _sums(going, adding)
        # Only what exceeds what the pods hold that go: Counter drops the rest.
        of_cards += cards_after - cards_before
        of_node += node_after - node_before
        named.update(device.id for each in nominated for grant in each.grants for device in grant.devices)
    excess = {name: Usage(*(of_cards[name, at] for at in range(len(Usage._fields)))) for name, _ in of_cards}
    pods = of_node.pop(PODS, 0)
    return NominatedRoom(excess, frozenset((named & by_id.keys()) - adding.keys()), tuple(of_node.items()), pods)


def _sums(holdings: Iterable[Holding], cards: Mapping[str, Card]) -> tuple[Counter[tuple[str, int]], Counter[str]]:
    """Return what pods hold together: of these cards by id and field of :class:`Usage`, and of their node."""
    of_cards, of_node = Counter[tuple[str, int]](), Counter[str]()
    for holding in holdings:
        for name, shares in shares_by_card(holding.grants).items():
            if name in cards:
                for at, amount in enumerate(usage_of(cards[name], shares)):
                    of_cards[name, at] += amount
        of_node[PODS] += 1
        for resource, amount in holding.resources:
            of_node[resource] += amount
    return of_cards, of_node
