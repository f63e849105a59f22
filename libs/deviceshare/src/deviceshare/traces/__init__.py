"""Scheduling policies on the nodes and pods of a recorded trace, compiled by Cython: ``deviceshare simulate trace``.

Reading order: :mod:`.trace` (the values of a trace), :mod:`.nodes` (free capacity as arrays, and pods with equal
requests), :mod:`.policy` (scores of all nodes, refreshed for the nodes that changed), :mod:`.baselines` and :mod:`.fgd`
(published policies), :mod:`.gradient`, :mod:`.fragmentation` and :mod:`.expected` (the policy ``fragmentation``).

The modules with a ``.pxd`` are kernels: :mod:`deviceshare.kernels` says how they are written.
"""

from deviceshare.traces.baselines import AnyNode, BestFit, DotProd, GpuClustering, GpuPacking
from deviceshare.traces.constants import CARD
from deviceshare.traces.expected import ExpectedPods
from deviceshare.traces.fgd import Fgd
from deviceshare.traces.fragmentation import Fragmentation
from deviceshare.traces.gradient import Typical, TypicalPod
from deviceshare.traces.nodes import TraceNodes, TracePods
from deviceshare.traces.policy import TracePolicy
from deviceshare.traces.trace import Trace, TraceNode, TracePod, accepted, pod_classes, trace_nodes, typical_pods

__all__ = [
    "CARD",
    "AnyNode",
    "BestFit",
    "DotProd",
    "ExpectedPods",
    "Fgd",
    "Fragmentation",
    "GpuClustering",
    "GpuPacking",
    "Trace",
    "TraceNode",
    "TraceNodes",
    "TracePod",
    "TracePods",
    "TracePolicy",
    "Typical",
    "TypicalPod",
    "accepted",
    "pod_classes",
    "trace_nodes",
    "typical_pods",
]
