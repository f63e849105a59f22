"""``deviceshare lab bench allocator``: decisions per second of one process on one core, and the upper bound.

:mod:`.workload` (nodes and pods), :mod:`.files` (workload files), :mod:`.generated` (generated workloads),
:mod:`.measure` (the run), :mod:`.floor` (the bookkeeping alone), :mod:`.curve` (several sizes).
"""
