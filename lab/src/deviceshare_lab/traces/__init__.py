"""Scheduling policies on the nodes and pods of a recorded trace, compiled by Cython: ``deviceshare lab study trace``.

Reading order: :mod:`.trace` (the values of a trace), :mod:`.nodes` (free capacity as arrays, and pods with equal
requests), :mod:`.policy` (scores of all nodes, refreshed for the nodes that changed), :mod:`.baselines` and :mod:`.fgd`
(published policies), :mod:`.gradient`, :mod:`.fragmentation` and :mod:`.expected` (the policy ``fragmentation``);
:mod:`.recorded` (when pods arrive, and for how long they run) and :mod:`.waiting` (pods that wait for others to end).

The modules with a ``.pxd`` are kernels: :mod:`deviceshare.kernels` says how they are written.
"""

from deviceshare.kernels import CARD, Typical, TypicalPod

from deviceshare_lab.traces.baselines import AnyNode, BestFit, DotProd, GpuClustering, GpuPacking
from deviceshare_lab.traces.expected import ExpectedPods
from deviceshare_lab.traces.fgd import Fgd
from deviceshare_lab.traces.fragmentation import Fragmentation
from deviceshare_lab.traces.nodes import TraceNodes, TracePods
from deviceshare_lab.traces.policy import TracePolicy
from deviceshare_lab.traces.recorded import LONGEST, Schedule, arrivals_until, cycle_seconds, schedule, with_times
from deviceshare_lab.traces.trace import Trace, TraceNode, TracePod, accepted, pod_classes, trace_nodes, typical_pods
from deviceshare_lab.traces.waiting import WaitingPods

__all__ = [
    "CARD",
    "LONGEST",
    "AnyNode",
    "BestFit",
    "DotProd",
    "ExpectedPods",
    "Fgd",
    "Fragmentation",
    "GpuClustering",
    "GpuPacking",
    "Schedule",
    "Trace",
    "TraceNode",
    "TraceNodes",
    "TracePod",
    "TracePods",
    "TracePolicy",
    "Typical",
    "TypicalPod",
    "WaitingPods",
    "accepted",
    "arrivals_until",
    "cycle_seconds",
    "pod_classes",
    "schedule",
    "trace_nodes",
    "typical_pods",
    "with_times",
]
