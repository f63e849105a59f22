"""Events of the group events.k8s.io: repeated events are one object with a series."""

import hashlib
import time

from deviceshare_cluster.interface import EventRecord, Object
from deviceshare_cluster.kube.kinds import KINDS

LONGEST_NOTE = 1024
"""Maximum size of a note in bytes, by the API server."""

_OF_PREEMPTION = frozenset({"Evict", "Nominated", "Preempted", "PreemptionBlocked"})
"""The reasons of Events of preemption, whose action is that of kube-scheduler's."""


def new_event(event_record: EventRecord, component: str, instance: str) -> Object:
    """Return an Event. Its name is a hash of its content, so repeated events need no memory of recorded ones."""
    kind, namespace, name, uid, warning, reason, message, at, _ = event_record
    regarding = {"apiVersion": KINDS[kind].version, "kind": kind, "namespace": namespace, "name": name, "uid": uid}
    same = "\0".join((*regarding.values(), str(warning), reason, message))
    digest = hashlib.blake2b(same.encode(), digest_size=8).hexdigest()
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": f"{name}.{digest}", **event_record.metadata},
        "regarding": {field: value for field, value in regarding.items() if value},
        "type": "Warning" if warning else "Normal",
        "reason": reason,
        "action": "Preempting" if reason in _OF_PREEMPTION else "Scheduling" if warning else "Binding",
        "note": _cut(event_record.note),
        "reportingController": component,
        "reportingInstance": instance,
        "eventTime": micro_time(at),
    }


def seen_again(event: Object, at: float) -> Object:
    """Return the Event with its series incremented."""
    count = (event.get("series") or {}).get("count", 1)
    return event | {"series": {"count": count + 1, "lastObservedTime": micro_time(at)}}


def as_core(event: Object) -> Object:
    """Return an Event in the format of the core group, as ``kubectl get events`` shows it."""
    series = event.get("series") or {}
    first = event.get("eventTime") or event.get("deprecatedFirstTimestamp") or ""
    last = series.get("lastObservedTime") or event.get("deprecatedLastTimestamp") or first
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": event["metadata"],
        "involvedObject": event.get("regarding") or {},
        "type": event.get("type", ""),
        "reason": event.get("reason", ""),
        "message": event.get("note", ""),
        "source": {"component": event.get("reportingController", "")},
        "reportingComponent": event.get("reportingController", ""),
        "firstTimestamp": _seconds(first),
        "lastTimestamp": _seconds(last),
        "count": series.get("count") or event.get("deprecatedCount") or 1,
    }


def _seconds(moment: str) -> str:
    return f"{moment.partition('.')[0]}Z" if "." in moment else moment


def micro_time(at: float) -> str:
    """Return unix seconds as RFC 3339 with microseconds."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at)) + f".{int(at % 1 * 1e6):06d}Z"


def _cut(message: str) -> str:
    raw = message.encode()
    return message if len(raw) <= LONGEST_NOTE else raw[: LONGEST_NOTE - 4].decode(errors="ignore") + "…"
