"""Events of the group events.k8s.io: one object for the same event, counted in its series."""

import hashlib
import time

from deviceshare_cluster.interface import EventRecord, Object
from deviceshare_cluster.kube.kinds import KINDS

LONGEST_NOTE = 1024
"""The most bytes of a note that the API server accepts."""


def new_event(event_record: EventRecord, component: str, instance: str) -> Object:
    """Return an Event. The name is a function of the event, so that no record of Events is needed."""
    kind, namespace, name, uid, warning, reason, message, at, _ = event_record
    regarding = {"apiVersion": KINDS[kind].version, "kind": kind, "namespace": namespace, "name": name, "uid": uid}
    same = "\0".join((*regarding.values(), str(warning), reason, message))
    digest = hashlib.blake2b(same.encode(), digest_size=8).hexdigest()
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": f"{name}.{digest}", "namespace": namespace or "default"},
        "regarding": {field: value for field, value in regarding.items() if value},
        "type": "Warning" if warning else "Normal",
        "reason": reason,
        "action": "Scheduling" if warning else "Binding",
        "note": _cut(message),
        "reportingController": component,
        "reportingInstance": instance,
        "eventTime": micro_time(at),
    }


def seen_again(event: Object, at: float) -> Object:
    """Return the Event with the count of its series incremented."""
    count = (event.get("series") or {}).get("count", 1)
    return event | {"series": {"count": count + 1, "lastObservedTime": micro_time(at)}}


def as_core(event: Object) -> Object:
    """Return an Event in the form of the core group, which ``kubectl get events`` shows."""
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
