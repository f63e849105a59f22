"""Answers recorded from Kubernetes' allocator of devices (Dynamic Resource Allocation), compared with ours."""
