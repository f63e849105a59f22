"""Directories of manifests for `deviceshare simulate cluster`, and what it answers."""

import json
from typing import Any

from typer.testing import Result

NOW = "2026-01-01T00:00:00Z"
MEMORY = 10_000


def node(name: str, cards: int = 1, memory: int = MEMORY, labels: str = "{}") -> str:
    register = "".join(f"{name}-{at},10,{memory},NVIDIA-T4,true,hami-core:" for at in range(cards))
    return f"""
apiVersion: v1
kind: Node
metadata: {{name: {name}, labels: {labels}, annotations: {{volcano.sh/node-vgpu-register: "{register}"}}}}
status:
  allocatable: {{cpu: "64", memory: 256Gi, pods: "110"}}
  conditions: [{{type: Ready, status: "True"}}]
"""


def pod(name: str, memory: int = 4000, more: str = "", metadata: str = "", scheduler: str = "volcano") -> str:
    return f"""
apiVersion: v1
kind: Pod
metadata: {{name: {name}{metadata}}}
spec:
  schedulerName: {scheduler}
  {more}
  containers:
  - name: main
    image: busybox
    resources: {{limits: {{volcano.sh/vgpu-number: 1, volcano.sh/vgpu-memory: {memory}}}}}
"""


GROUP = """
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {name: gang}
spec: {minMember: 2, queue: default}
"""
MEMBER = ", annotations: {scheduling.k8s.io/group-name: gang}"
STATEFUL = """
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  serviceName: db
  replicas: 2
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:
      schedulerName: volcano
      containers:
      - name: main
        image: busybox
        resources: {limits: {volcano.sh/vgpu-number: 1, volcano.sh/vgpu-memory: 4000}}
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
"""
STORAGE = """
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: disks}
provisioner: kubernetes.io/no-provisioner
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: disk}
spec: {storageClassName: disks, capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], hostPath: {path: /disk}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: c1}
spec: {storageClassName: disks, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: c2}
spec: {storageClassName: disks, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
"""


def runs(result: Result) -> list[dict[str, Any]]:
    assert result.exit_code == 0, (result.output, result.exception)
    found: list[dict[str, Any]] = json.loads(result.stdout)["runs"]
    return found


def placements(run: dict[str, Any]) -> dict[str, str | None]:
    return {each["name"]: each["node"] for each in run["decisions"]}
