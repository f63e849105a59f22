"""Kubernetes objects in, typed facts out: one module for each kind; what is wrong becomes problems."""

from deviceshare.objects.node import decode_node
from deviceshare.objects.pod import decode_pod
from deviceshare.objects.podgroup import decode_podgroup
from deviceshare.objects.priority_class import decode_priority_class
from deviceshare.objects.queue import decode_queue

__all__ = ["decode_node", "decode_pod", "decode_podgroup", "decode_priority_class", "decode_queue"]
