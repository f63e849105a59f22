"""Metrics: reads every stream of the bus and shows the state of the cluster to Prometheus, programs and people.

Reading order: :mod:`~deviceshare_metrics.core` (the state), :mod:`~deviceshare_metrics.api` (the JSON, as types; pure
and outside of the core, since commands import it and have to start fast), :mod:`~deviceshare_metrics.service`,
:mod:`~deviceshare_metrics.queries`, :mod:`~deviceshare_metrics.server`, :mod:`~deviceshare_metrics.exposition`
(Prometheus). The dashboard: :mod:`~deviceshare_metrics.api_dashboard`, :mod:`~deviceshare_metrics.card_map`,
:mod:`~deviceshare_metrics.change_stream`, :mod:`~deviceshare_metrics.dashboard` and the files in ``static``.
"""
