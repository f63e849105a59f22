"""Published scheduling policies on the nodes and pods of a recorded trace, compiled by Cython.

These are the policies to which ``deviceshare simulate trace`` compares those of the product. Reading order:
:mod:`.trace` (the values of a trace), :mod:`.nodes` (free capacity as arrays, and pods with equal requests),
:mod:`.policy` (scores of all nodes, refreshed for the nodes that changed), :mod:`.baselines`, :mod:`.fgd`.

The modules with a ``.pxd`` are kernels: :mod:`deviceshare.kernels` says how they are written.
"""

from deviceshare.traces.baselines import BestFit, DotProd, GpuClustering, GpuPacking
from deviceshare.traces.constants import CARD
from deviceshare.traces.fgd import Fgd, Typical, TypicalPod
from deviceshare.traces.nodes import TraceNodes, TracePods
from deviceshare.traces.policy import TracePolicy
from deviceshare.traces.trace import Trace, TraceNode, TracePod, accepted, pod_classes, trace_nodes, typical_pods

__all__ = [
    "CARD",
    "BestFit",
    "DotProd",
    "Fgd",
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
