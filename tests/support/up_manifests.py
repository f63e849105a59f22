"""Manifests of a node with one vGPU card, and of pods that request a part of it."""

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
