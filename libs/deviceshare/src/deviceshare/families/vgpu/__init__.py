"""vGPU: one request of a pod, answered by software sharing (hami-core, MPS) or by hardware partitions (MIG).

Rules: Volcano pkg/scheduler/api/devices/nvidia/vgpu; annotations: :mod:`.wire`.
"""
