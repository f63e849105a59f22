"""``deviceshare top pods|namespaces|queues|owners``: who holds how much of which card model, and for how long."""

from collections.abc import Callable, Iterable, Mapping
from typing import Literal

import msgspec
from deviceshare_metrics import api

from deviceshare_cli.output import NONE, indented_json, lines_text
from deviceshare_cli.reading.opening import Source, opened
from deviceshare_cli.reports import table_lines

Holders = Literal["pods", "namespaces", "queues", "owners"]
_HOUR = 3600.0
_TITLES: Mapping[Holders, str] = {"pods": "POD", "namespaces": "NAMESPACE", "queues": "QUEUE", "owners": "OWNER"}
_NAMES: Mapping[Holders, Callable[[api.Pod], str]] = {
    "pods": lambda pod: f"{pod.namespace}/{pod.name}",
    "namespaces": lambda pod: pod.namespace,
    "queues": lambda pod: pod.queue,
    "owners": lambda pod: pod.held_by,
}
"""The holder for whom a pod holds devices."""


class Held(msgspec.Struct, kw_only=True):
    """What a holder has of a card model now.

    ``cards``: shares count by their part of the card's memory, or of its cores where it has no memory. ``memory`` in
    MiB. ``card_hours``: what its present shares have taken since their pods were decided (created, where the ledger
    does not know it), so those of ended pods do not count.
    """

    holder: str
    model: str
    pods: int = 0
    cards: float = 0.0
    memory: int = 0
    card_hours: float = 0.0


async def run_holders(source: Source, by: Holders, model: str, output: str) -> int:
    """Print who holds what and return the exit status; ``output`` is ``table`` or ``json``."""
    async with opened(source) as reader:
        pods, claims = await reader.items(api.Pod), await reader.items(api.Claim)
        found = held(pods, claims, _NAMES[by], reader.now)
    found = [each for each in found if model.lower() in each.model.lower()]
    if output == "json":
        print(indented_json({by: found}))
        return 0
    head = (_TITLES[by], "MODEL", *(() if by == "pods" else ("PODS",)), "CARDS", "MEMORY", "CARD-HOURS")
    rows = []
    for each in found:
        number = [] if by == "pods" else [str(each.pods)]
        memory, hours = f"{each.memory}Mi" if each.memory else NONE, f"{each.card_hours:.1f}"
        rows.append([each.holder, each.model, *number, f"{each.cards:.2f}", memory, hours])
    print(lines_text(table_lines((head, rows)) or ["No pod holds devices."]))
    return 0


def held(
    pods: Iterable[api.Pod], claims: Iterable[api.Claim], name_of: Callable[[api.Pod], str], now: float
) -> list[Held]:
    """Return what each holder has of each model, most cards first; ``now`` in unix seconds."""
    decided = {each.uid: each.decided_at for each in claims if each.state not in ("refused", "withdrawn")}
    found: dict[tuple[str, str], Held] = {}
    for pod in pods:
        start = decided.get(pod.uid) or pod.created
        hours = max(0.0, now - start) / _HOUR if start else 0.0
        for card in pod.cards:
            name, model = name_of(pod), card.type or "unknown"
            of_model = found.setdefault((name, model), Held(holder=name, model=model))
            of_model.cards += card.part
            of_model.memory += card.memory
            of_model.card_hours += card.part * hours
        for model in {card.type or "unknown" for card in pod.cards}:
            found[name_of(pod), model].pods += 1
    return sorted(found.values(), key=lambda each: (-round(each.cards, 6), each.holder, each.model))
