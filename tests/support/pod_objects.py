"""Pods as JSON, decoded."""

import json

from deviceshare.model import PodFact
from deviceshare.objects import decode_pod

METADATA = {"name": "a", "namespace": "ml", "uid": "u1"}


def pod(spec=None, status=None, **metadata) -> PodFact:
    """Return the fact of a pod with this spec, status and metadata."""
    return decode_pod(json.dumps({"metadata": METADATA | metadata, "spec": spec, "status": status}).encode())


def container(name="c", **fields):
    """Return a container of a pod's spec."""
    return {"name": name, "image": "x"} | fields
