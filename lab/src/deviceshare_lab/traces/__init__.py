"""Scheduling policies on the nodes and pods of a recorded trace, compiled by Cython: ``deviceshare lab study trace``.

Reading order: :mod:`.trace` (the values of a trace), :mod:`.nodes` (free capacity as arrays, and pods with equal
requests), :mod:`.policy` (scores of all nodes, refreshed for the nodes that changed), :mod:`.baselines` and :mod:`.fgd`
(published policies), :mod:`.gradient`, :mod:`.fragmentation` and :mod:`.expected` (the policy ``fragmentation``);
:mod:`.recorded` (when pods arrive, and for how long they run) and :mod:`.waiting` (pods that wait for others to end).

The modules with a ``.pxd`` are kernels: :mod:`deviceshare.kernels` says how they are written.
"""

from deviceshare.kernels import CARD as CARD, Typical as Typical, TypicalPod as TypicalPod

from deviceshare_lab.traces.baselines import (
    AnyNode as AnyNode,
    BestFit as BestFit,
    DotProd as DotProd,
    GpuClustering as GpuClustering,
    GpuPacking as GpuPacking,
)
from deviceshare_lab.traces.expected import ExpectedPods as ExpectedPods
from deviceshare_lab.traces.fgd import Fgd as Fgd
from deviceshare_lab.traces.fragmentation import Fragmentation as Fragmentation
from deviceshare_lab.traces.nodes import TraceNodes as TraceNodes, TracePods as TracePods
from deviceshare_lab.traces.policy import TracePolicy as TracePolicy
from deviceshare_lab.traces.recorded import (
    LONGEST as LONGEST,
    Schedule as Schedule,
    arrivals_until as arrivals_until,
    cycle_seconds as cycle_seconds,
    schedule as schedule,
    with_times as with_times,
)
from deviceshare_lab.traces.trace import (
    Trace as Trace,
    TraceNode as TraceNode,
    TracePod as TracePod,
    accepted as accepted,
    pod_classes as pod_classes,
    trace_nodes as trace_nodes,
    typical_pods as typical_pods,
)
from deviceshare_lab.traces.waiting import WaitingPods as WaitingPods
