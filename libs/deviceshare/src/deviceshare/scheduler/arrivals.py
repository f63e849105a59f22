"""Counting the pods that arrive: the policy ``fragmentation`` expects more of the same."""

from deviceshare.model import FRAGMENTATION, PodFact, Policies
from deviceshare.scheduler.cluster_state import ClusterState


def count_arrival(cluster: ClusterState, pod: PodFact) -> None:
    """Count a pod that was not known before, if a policy needs it."""
    if cluster.allocator.learns:
        cluster.allocator.arrived(pod.ask)
    else:
        count_if_selected(cluster, pod.ask.policies)


def count_if_selected(cluster: ClusterState, policies: Policies) -> None:
    """Begin to count if a pod, PodGroup or queue has the policy."""
    if FRAGMENTATION in (policies.node, policies.card):
        begin_to_count(cluster)


def count_if_configured(cluster: ClusterState) -> None:
    """Begin to count if the configuration has the policy now."""
    if cluster.allocator.conf.policy == FRAGMENTATION:
        begin_to_count(cluster)


def begin_to_count(cluster: ClusterState) -> None:
    """Count the pods that are known and those that arrive from now on, unless pods are counted already."""
    if cluster.allocator.learns:
        return
    cluster.allocator.learn()
    for pod in cluster.pods.values():
        cluster.allocator.arrived(pod.fact.ask)
