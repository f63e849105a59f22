"""``deviceshare lab study``: jobs, policies and the pipeline of services in simulated time.

The product's own code decides (:mod:`deviceshare.queueing`, :mod:`deviceshare.allocation`, the core of placement);
arrivals, ends and bindings of pods are simulated. Reading order: :mod:`.virtual_cluster`, :mod:`.fairness`;
:mod:`.pipeline`, :mod:`.scaling`; :mod:`.parallel` (shared by the following);
:mod:`.trace`; :mod:`.partitions`; :mod:`.victims`.
"""
