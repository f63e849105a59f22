"""Metrics: reads every stream of the bus and shows what it says, for Prometheus, for programs and for people.

Reading order: :mod:`~deviceshare_metrics.state_store` (what the streams say now), :mod:`~deviceshare_metrics.snapshot`
(what that means for nodes, cards and pods), :mod:`~deviceshare_metrics.api` (the JSON, as types),
:mod:`~deviceshare_metrics.exposition` (Prometheus), :mod:`~deviceshare_metrics.server`.
"""
