"""Changes of a cluster about which ``fit`` is asked: nodes that are gone, further nodes, another configuration."""

from pathlib import Path
from typing import NamedTuple

from deviceshare.conf import SCHEDULER
from deviceshare.model import ConfigError, Gone, Now
from deviceshare.scheduler import Scheduler
from deviceshare_bus.messages.subjects import fact

from deviceshare_cli.errors import CommandError
from deviceshare_cli.loading import read_conf
from deviceshare_cli.notices import to_stderr
from deviceshare_cli.whatif.addition import Addition, added_nodes
from deviceshare_cli.whatif.affected import check_known, is_on


class ClusterChanges(NamedTuple):
    """The nodes that are gone, those that there are more, and a file with another configuration."""

    without: tuple[str, ...] = ()
    addition: Addition = Addition()
    conf: Path | None = None


def change_cluster(scheduler: Scheduler, changes: ClusterChanges, now: float) -> list[str]:
    """Apply changes; return the names of the further nodes.

    Pods of nodes that are gone are gone as well, and are not placed again. Raises CommandError.
    """
    at = Now(now, now)
    for name in changes.without:
        check_known("--without", name, scheduler.node_names)
    nodes = {name: node for name in scheduler.node_names if (node := scheduler.node(name)) is not None}
    added = added_nodes(nodes, changes.addition)
    for node in added:
        scheduler.apply(fact("node", node.name), node, at)
    gone = [uid for uid, record in scheduler.pods.items() if is_on(scheduler, record, changes.without)]
    for uid in gone if changes.without else ():
        scheduler.apply(fact("pod", uid), Gone(), at)
    for name in dict.fromkeys(changes.without):
        scheduler.apply(fact("node", name), Gone(), at)
    if changes.conf is not None:
        try:
            conf, warnings = read_conf(changes.conf)
        except ConfigError as error:
            raise CommandError(" ".join(str(error).split())) from None
        for warning in warnings:
            to_stderr(f"Warning: {warning}")
        scheduler.apply(fact("config", SCHEDULER), conf, at)
    return [node.name for node in added]
