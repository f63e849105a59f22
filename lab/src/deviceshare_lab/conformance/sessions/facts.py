"""The facts of a recorded session, decoded once for all of its replays."""

from collections.abc import Iterable

import msgspec
from deviceshare.conf import parse_conf, parse_devices
from deviceshare.model import NodeFact, PodFact, PodGroupFact, PriorityClassFact, QueueFact
from deviceshare.objects import decode_node, decode_pod, decode_podgroup, decode_priority_class, decode_queue

from deviceshare_lab.conformance.sessions.recorded import Object, Session

SCHEDULERS = ("volcano", "")
"""Values of ``schedulerName`` of the pods to place; the unit tests set none."""


class SessionFacts(msgspec.Struct, frozen=True):
    """The configurations and the objects of a session; ``pods``: those that have a node or are to be placed."""

    conf: str
    devices: str
    priorities: tuple[PriorityClassFact, ...]
    queues: tuple[QueueFact, ...]
    nodes: tuple[NodeFact, ...]
    groups: tuple[PodGroupFact, ...]
    pods: tuple[PodFact, ...]


def decode(session: Session) -> SessionFacts:
    """Decode the objects of a session.

    Raises:
        ConfigError: a configuration is invalid.
    """
    parse_conf(session.conf, "conf")
    if session.devices:
        parse_devices(session.devices, "devices")
    return SessionFacts(
        session.conf,
        session.devices,
        tuple(map(decode_priority_class, _raw(session.priorityclasses))),
        tuple(map(decode_queue, _raw(session.queues))),
        tuple(map(decode_node, _raw(session.nodes))),
        tuple(map(decode_podgroup, _raw(session.podgroups))),
        tuple(pod for pod in map(decode_pod, _raw(session.pods)) if pod.node or pod.scheduler in SCHEDULERS),
    )


def _raw(objects: Iterable[Object] | None) -> list[bytes]:
    return [msgspec.json.encode(each) for each in objects or ()]
