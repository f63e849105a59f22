"""The nodes that options name, and the pods on them. Pure."""

from collections.abc import Collection

from deviceshare.scheduler import PodRecord, Scheduler

from deviceshare_cli.errors import CommandError

MAX_NODES = 20
"""The most nodes that an error names."""


def check_known(option: str, name: str, nodes: Collection[str]) -> None:
    """Raise CommandError if an option names an unknown node."""
    if name not in nodes:
        shown = ", ".join(sorted(nodes)[:MAX_NODES]) + (", …" if len(nodes) > MAX_NODES else "")
        raise CommandError(f'{option} {name}: nodes "{name}" not found: the cluster has {shown or "none"}')


def is_on(scheduler: Scheduler, record: PodRecord, nodes: Collection[str]) -> bool:
    """Return whether a pod is on one of these nodes, or is being bound to it."""
    if record.fact.node or scheduler.is_nominated(record.fact.uid):
        return record.fact.node in nodes
    return any(node in nodes for _, node in record.claims)
