"""Binder: binds what the ledger claims, reports what became of it.

Reading order: :mod:`~deviceshare_binder.views` (what it needs of facts and ledgers), :mod:`~deviceshare_binder.core`
(which claim is bound when, and what its outcome is), :mod:`~deviceshare_binder.bind_task` (one claim on its way),
:mod:`~deviceshare_binder.nodes` (a node's claims and outcomes), :mod:`~deviceshare_binder.plugin_handoff` (who waits
for a device plugin), :mod:`~deviceshare_binder.locks` (locks of nodes), :mod:`~deviceshare_binder.reports` (conditions
and Events), :mod:`~deviceshare_binder.groups` (what PodGroups and Queues say), :mod:`~deviceshare_binder.shell` (the
bytes moved, the clock).
"""
