"""The pure core of the binder: bus messages and the cluster's answers in, commands out.

Reading order: :mod:`~deviceshare_binder.core.events` and :mod:`~deviceshare_binder.core.commands`;
:mod:`~deviceshare_binder.core.binder_core` (the whole);
:mod:`~deviceshare_binder.core.claims` (which claim is bound when, and what its outcome is) with its parts
:mod:`~deviceshare_binder.core.bind_task`, :mod:`~deviceshare_binder.core.bind_transitions` (what happens to a task),
:mod:`~deviceshare_binder.core.bind_steps`, :mod:`~deviceshare_binder.core.bind_answers`,
:mod:`~deviceshare_binder.core.bind_queue`,
:mod:`~deviceshare_binder.core.volumes` (the volumes of a pod, which are bound before the pod),
:mod:`~deviceshare_binder.core.outcomes` (a node's claims and outcomes),
:mod:`~deviceshare_binder.core.plugin_handoff` (which claims wait for a device plugin) and
:mod:`~deviceshare_binder.core.locks` (node locks), and :mod:`~deviceshare_binder.core.comparison` (with the choices of
another scheduler);
:mod:`~deviceshare_binder.core.reports` (conditions and Events of pods), :mod:`~deviceshare_binder.core.groups`
(statuses of PodGroups and Queues), :mod:`~deviceshare_binder.core.reporting` (their pace),
:mod:`~deviceshare_binder.core.cluster_writes` (their retries), :mod:`~deviceshare_binder.core.system_queues`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from deviceshare_bus.cores.division import Division
from deviceshare_bus.messages.subjects import Stream

from deviceshare_binder.core.binder_core import REPORTS_PER_SECOND as REPORTS_PER_SECOND, BinderCore as BinderCore
from deviceshare_binder.core.events import decode_event as decode_event
from deviceshare_binder.core.plugin_handoff import PATIENCE as PATIENCE


def build_core(arguments: Mapping[str, Any], keys: Sequence[bytes] = ()) -> BinderCore:
    """Return the core of a service that was started with these arguments.

    Args:
        arguments: ``plugin_patience`` in seconds, ``reports_per_second``, ``dry_run``, and for replicas that divide the
            work ``instance`` and ``member`` (:class:`deviceshare_bus.cores.division.Division`).
        keys: signing keys. A replay without them gives the same commands except for the signatures.
    """
    return BinderCore(
        keys=keys,
        patience=arguments["plugin_patience"],
        reports_per_second=arguments["reports_per_second"],
        dry_run=arguments.get("dry_run", False),
        division=Division(Stream.OUTCOME, "binder", arguments.get("instance", ""), arguments.get("member", "")),
    )
