"""Resources and labels of NVIDIA's device plugin and GPU feature discovery.

Source: NVIDIA/k8s-device-plugin (cmd/gpu-feature-discovery, docs).
"""

from deviceshare.families.hooks import Program

GPU = "nvidia.com/gpu"
"""Resource: whole GPUs; kubelet chooses them."""
PREFIX = "nvidia.com/"
"""Prefix of all resources of the plugin: ``nvidia.com/gpu``, ``nvidia.com/mig-1g.5gb``, …"""
PRODUCT = "nvidia.com/gpu.product"
"""Node label: the model of its GPUs, such as ``Tesla-T4`` or ``NVIDIA-A100-SXM4-40GB``."""
DEVICE_PLUGIN = Program("NVIDIA device plugin", "nvidia/k8s-device-plugin", "keep it on nodes with whole GPUs")
