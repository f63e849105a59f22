"""Manifests of a node with one vGPU card, and of pods and a gang that request a part of such cards."""

NODE = """
apiVersion: v1
kind: Node
metadata:
  name: node-a
  annotations: {volcano.sh/node-vgpu-register: "GPU-1,10,11178,NVIDIA-T4,true,hami-core:"}
status:
  allocatable: {cpu: "8", memory: 16Gi, pods: "110", volcano.sh/vgpu-number: "10", volcano.sh/vgpu-memory: "11178"}
  conditions: [{type: Ready, status: "True"}]
"""


def pod(name: str, number: object = 1, memory: object = 1024) -> str:
    return f"""
apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec:
  schedulerName: volcano
  containers:
  - name: main
    image: busybox
    resources: {{limits: {{volcano.sh/vgpu-number: {number}, volcano.sh/vgpu-memory: {memory}}}}}
"""


def gang(memory: object) -> str:
    """Return a Job of three pods that are placed together."""
    return f"""
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {{name: gang}}
spec:
  schedulerName: volcano
  minAvailable: 3
  tasks:
  - name: worker
    replicas: 3
    template:
      spec:
        restartPolicy: Never
        containers:
        - name: main
          image: busybox
          resources: {{limits: {{volcano.sh/vgpu-number: 1, volcano.sh/vgpu-memory: {memory}}}}}
"""
