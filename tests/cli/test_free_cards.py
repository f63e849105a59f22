"""`top`, the live table, the metrics and the data of the page count free cards alike, on random clusters."""

import random
import re
from collections import Counter, defaultdict
from typing import Any

import pytest
from deviceshare.model import Card, CardCordon
from deviceshare_cli.live_nodes import totals as terminal_lines
from deviceshare_cli.whatif.top import totals
from deviceshare_metrics.core import MetricsCore
from deviceshare_metrics.core.card_rows import card_rows
from prometheus_client.parser import text_string_to_metric_families
from support.metrics import exposed, read, snapshot_of
from support.metrics_messages import claim, grants, ledger, node, pod

SEEDS = 30


def cluster(chance: random.Random) -> MetricsCore:
    messages: list[tuple[str, Any]] = []
    for number in range(chance.randint(1, 5)):
        name, model = f"n{number}", chance.choice(("A100", "T4"))
        cards, claims = [], []
        for at in range(chance.randint(0, 9)):
            uid = f"{name}-{at}"
            cordoned = chance.random() < 0.15
            cards.append(Card(uid, at, 10, 8000, 100, model, chance.random() > 0.15, "hami-core", cordoned=cordoned))
            if chance.random() < 0.3:
                messages.append(pod(uid))
                claims.append(claim(uid, grants=grants(card=uid)))
        state = {"ready": chance.random() > 0.15, "unschedulable": chance.random() < 0.15}
        cordons = tuple(CardCordon(card.id) for card in cards if card.cordoned)
        whole = {"nvidia.com/gpu": chance.randint(1, 8)} if not cards else {}
        messages += [node(name, tuple(cards), cordons=cordons, allocatable=whole, **state), ledger(*claims, node=name)]
    return read(*messages)


def of_page(core: MetricsCore) -> dict[tuple[str, str], Counter[str]]:
    """Return the free cards by model and node, as the page counts them (static/model.js)."""
    found: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for row in card_rows(core.store):
        for cell in row.cards:
            kind = row.kinds[cell.kind]
            free = row.state == "ready" and cell.healthy and not cell.cordoned and not cell.slots_used
            found[kind.type or "unknown", kind.mode][row.name] += free
    return found


@pytest.mark.parametrize("seed", range(SEEDS))
def test_free_cards_are_the_same_number_everywhere(seed: int) -> None:
    core = cluster(random.Random(seed))
    snapshot = snapshot_of(core)
    top = totals(snapshot.devices, snapshot.nodes)
    page = of_page(core)
    assert {(each.model, each.mode): each.whole_cards_free for each in top} == {
        model: free.total() for model, free in page.items()
    }
    assert {(each.model, each.mode): each.nodes_with_free for each in top} == {
        model: {number: sum(cards >= number for cards in free.values()) for number in (8, 4, 2, 1)}
        for model, free in page.items()
    }
    samples = {
        (each.name, each.labels["type"] or "unknown", each.labels["mode"], each.labels.get("cards", "")): each.value
        for family in text_string_to_metric_families(exposed(core, "", "cluster"))
        for each in family.samples
        if "mode" in each.labels
    }
    for each in top:
        key = (each.model, each.mode)
        assert samples["deviceshare_cluster_cards_free", *key, ""] == each.whole_cards_free
        assert samples["deviceshare_cluster_cards_free_most", *key, ""] == each.most_free_on_a_node
        for number, nodes in each.nodes_with_free.items():
            assert samples["deviceshare_cluster_nodes_with_free_cards", *key, str(number)] == nodes
    shown = [re.match(r".*: (\d+) of (\d+) free", line) for line in terminal_lines(snapshot.devices, snapshot.nodes)]
    numbers = sorted((int(each[1]), int(each[2])) for each in shown if each is not None)
    assert numbers == sorted((each.whole_cards_free, each.cards) for each in top)
