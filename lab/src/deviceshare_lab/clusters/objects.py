"""Objects and configurations of generated clusters."""

from collections.abc import Mapping

from deviceshare_cluster.interface import Object


def conf(argument: str, policy: str) -> str:
    """Return a ``volcano-scheduler.conf`` with one argument that enables a device family, and a policy."""
    return f"""\
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: deviceshare
    arguments:
      {argument}: true
      deviceshare.SchedulePolicy: {policy}
      deviceshare.ScheduleWeight: 10
"""


def node(name: str, resources: Mapping[str, str], annotations: Mapping[str, str]) -> Object:
    """Return a ready node, all of whose resources are allocatable."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "annotations": annotations},
        "status": {
            "capacity": resources,
            "allocatable": resources,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def pod(namespace: str, name: str, scheduler: str, limits: Mapping[str, str]) -> Object:
    """Return a pod of one container."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "schedulerName": scheduler,
            "containers": [{"name": "main", "image": "busybox", "resources": {"limits": limits}}],
        },
    }
