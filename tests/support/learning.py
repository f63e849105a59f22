"""Allocators under the policy ``fragmentation``, and the pods that they expect."""

from deviceshare.allocation import Allocator
from support.builders import cluster
from support.mig import DOCS

POLICY = "fragmentation"


def learning(*nodes, weight=0, **more):
    found = cluster(*nodes, policy=POLICY, weight=weight, devices=DOCS, **more)
    found.learn()
    return found


def expect(allocator: Allocator, *requests):
    """Let requests arrive until all others, and the one that is expected at first, are next to forgotten."""
    for _ in range(200):
        for each in requests:
            allocator.arrived(each)
