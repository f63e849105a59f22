"""How many pods one workload of the local cluster may have: its controllers make them in one step."""

from deviceshare_localcluster.checks import ManifestField

MAX_PODS = 10_000
"""Of one workload."""


def at_most_max(field: ManifestField) -> int:
    """Return a number of replicas. Raises RequestError if it is no whole number or above MAX_PODS."""
    replicas = field.whole()
    if replicas > MAX_PODS:
        raise field.error(f"at most {MAX_PODS}")
    return replicas


def check_total(field: ManifestField, pods: int) -> None:
    """Check the pods that a workload has in all. Raises RequestError."""
    if pods > MAX_PODS:
        raise field.holding(pods).error(f"at most {MAX_PODS} pods in all")
