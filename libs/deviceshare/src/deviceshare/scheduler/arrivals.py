"""Counting the pods that arrive: policies that compare by fragmentation expect more of the same."""

from collections import Counter

from deviceshare.model import PodFact, PodRequest, Policies
from deviceshare.policies import card_policy
from deviceshare.scheduler.cluster_state import ClusterState


def count_arrival(cluster: ClusterState, pod: PodFact) -> None:
    """Count a pod that was not known before, if a policy needs it."""
    if cluster.allocator.learns:
        cluster.allocator.arrived(pod.ask)
    else:
        count_if_selected(cluster, pod.ask.policies)


def count_if_selected(cluster: ClusterState, policies: Policies) -> None:
    """Begin to count if a pod, PodGroup or queue has a policy that compares by fragmentation."""
    if card_policy(policies.node).fragmentation or card_policy(policies.card).fragmentation:
        begin_to_count(cluster)


def count_if_configured(cluster: ClusterState) -> None:
    """Begin to count if the configuration has such a policy now."""
    if cluster.allocator.conf.scoring.fragmentation:
        begin_to_count(cluster)


def begin_to_count(cluster: ClusterState) -> None:
    """Count the pods that are known and those that arrive from now on, unless pods are counted already."""
    if cluster.allocator.learns:
        return
    cluster.allocator.learn()
    for pod in cluster.pods.values():
        cluster.allocator.arrived(pod.fact.ask)


def most_frequent_requests(cluster: ClusterState, most: int) -> list[tuple[PodRequest, int]]:
    """Return the most frequent requests of pods that have not ended, each with the number of its pods."""
    counts = Counter(record.pod_class for record in cluster.pods.values() if not record.fact.ended)
    return [(pod_class.request, count) for pod_class, count in counts.most_common(most)]
