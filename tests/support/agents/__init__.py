"""Simulated node agents: the kubelet and the device plugins of every node, on a real API server.

They choose pods as the plugins do, without knowing whom kubelet asks for, and complain where a pod would have been
given another pod's devices. They share no code with the scheduler.
"""

from support.agents.kubelets import NodeAgents

__all__ = ["NodeAgents"]
