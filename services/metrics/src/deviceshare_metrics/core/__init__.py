"""The pure core of the metrics service.

Reading order: :mod:`.events`, :mod:`.metrics_core` (applies them to the state), :mod:`.state_store` (the last message
of every subject), :mod:`.tallies` (counters), :mod:`.snapshot` (the joined state of nodes, cards and
pods, from :mod:`.states` and :mod:`.usage`), :mod:`.explaining`, :mod:`.visibility` (what of it a user sees).
"""

from typing import Any

from deviceshare_metrics.core.events import decode_event as decode_event
from deviceshare_metrics.core.metrics_core import MetricsCore as MetricsCore
from deviceshare_metrics.core.snapshot import Snapshot as Snapshot, build_snapshot as build_snapshot
from deviceshare_metrics.core.state_store import StateStore as StateStore
from deviceshare_metrics.core.states import count as count
from deviceshare_metrics.core.tallies import Tallies as Tallies


def build_core(arguments: dict[str, Any]) -> MetricsCore:
    """Return a core from the arguments of :class:`MetricsCore`."""
    return MetricsCore(**arguments)
