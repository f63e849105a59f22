"""The page: nodes with their cards as bars, waiting pods with their reasons. Plain HTML without external resources."""

from collections.abc import Iterable, Iterator
from html import escape
from itertools import groupby, islice
from urllib.parse import quote

from deviceshare_metrics.api import ClusterStatus, Device, Pod
from deviceshare_metrics.core import Snapshot
from deviceshare_metrics.core.states import OTHER

MOST_NODES = 200
MOST_PODS = 200

_STYLE = """
body{font:14px/1.4 system-ui,sans-serif;margin:2rem auto;max-width:72rem;padding:0 1rem;color:#222;background:#fff}
h1{font-size:1.4rem} h2{font-size:1.1rem;margin-top:2rem} h3{font-size:1rem;margin:1rem 0 .3rem}
table{border-collapse:collapse;width:100%} td,th{padding:.2rem .8rem .2rem 0;text-align:left;vertical-align:top}
.cards{display:grid;grid-template-columns:repeat(auto-fill,minmax(16rem,1fr));gap:.4rem 1rem}
.sick{color:#a00} .quiet{color:#666} meter{width:100%;height:.9rem} small{display:block;overflow-wrap:anywhere}
"""

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'",
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
}


def page(snapshot: Snapshot, status: ClusterStatus) -> str:
    """Return the page; everything that comes from the cluster is escaped."""
    return "".join(_parts(snapshot, status))


def _parts(snapshot: Snapshot, status: ClusterStatus) -> Iterator[str]:
    yield '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta http-equiv="refresh" content="5">'
    yield f"<title>deviceshare</title><style>{_STYLE}</style></head><body><h1>deviceshare</h1>"
    counts = ", ".join(f"{count} {state.lower()}" for state, count in status.pods.items() if count)
    yield f"<p>{sum(status.nodes.values())} nodes, {len(snapshot.devices)} cards, pods: {counts or 'none'}."
    if status.problems or status.undecodable:
        yield f' <span class="sick">{status.problems} problems, {status.undecodable} undecodable messages.</span>'
    yield '</p><p class="quiet">JSON: '
    yield " ".join(f'<a href="/api/v1/{name}">{name}</a>' for name in ("status", "nodes", "devices", "pods", "claims"))
    yield ' Prometheus: <a href="/metrics">metrics</a></p>'
    waiting = [pod for pod in snapshot.pods if pod.state in ("Pending", "Gated", OTHER)]
    if waiting:
        yield f"<h2>Waiting pods ({len(waiting)})</h2>"
        yield "<table><thead><tr><th>Pod</th><th>Queue</th><th>Reason</th></tr></thead><tbody>"
        yield from map(_waiting, waiting[:MOST_PODS])
        yield f"</tbody></table>{_more(len(waiting), MOST_PODS, 'pods')}"
    yield "<h2>Nodes</h2>"
    cards = {node: list(devices) for node, devices in groupby(snapshot.devices, key=lambda device: device.node)}
    for node in islice(snapshot.nodes, MOST_NODES):
        flags = ["not ready"] * (not node.ready) + ["unschedulable"] * node.unschedulable
        yield f'<h3>{escape(node.name)} <span class="sick">{", ".join(flags)}</span>'
        yield f' <span class="quiet">{node.pods} pods</span></h3>'
        yield from (f'<p class="sick">{escape(problem)}</p>' for problem in node.problems)
        yield from _cards(cards.get(node.name, ()))
    yield f"{_more(len(snapshot.nodes), MOST_NODES, 'nodes')}</body></html>"


def _waiting(pod: Pod) -> str:
    link = f"/api/v1/pods/{quote(pod.namespace, safe='')}/{quote(pod.name, safe='')}/explain"
    reason = escape(pod.reason or "not decided yet")
    name = escape(f"{pod.namespace}/{pod.name}")
    return f'<tr><td><a href="{link}">{name}</a></td><td>{escape(pod.queue)}</td><td>{reason}</td></tr>'


def _cards(devices: Iterable[Device]) -> Iterator[str]:
    yield '<div class="cards">'
    for card in devices:
        numbers = f"{card.memory_used} of {card.memory_total} MiB, cores {card.cores_used} of {card.cores_total}"
        sick = "" if card.healthy else ' <span class="sick">unhealthy</span>'
        yield f'<div><small>{escape(card.id)} <span class="quiet">{escape(card.type or card.mode)}</span>{sick}</small>'
        yield f'<meter min="0" max="{max(card.memory_total, 1)}" value="{card.memory_used}" title="{numbers}"></meter>'
        yield f'<small>{numbers}</small><small class="quiet">{escape(", ".join(card.pods))}</small></div>'
    yield "</div>"


def _more(count: int, shown: int, name: str) -> str:
    return f'<p>and {count - shown} more: <a href="/api/v1/{name}">{name}</a></p>' if count > shown else ""
