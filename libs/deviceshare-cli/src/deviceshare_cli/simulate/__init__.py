"""``deviceshare simulate``: jobs, policies and the pipeline of services in simulated time.

The library decides (:mod:`deviceshare.queueing`, :mod:`deviceshare.allocation`); arrivals and ends of pods are
simulated. Reading order: :mod:`.cluster`, :mod:`.fairness`; :mod:`.pipeline`, :mod:`.scaling`; :mod:`.trace`.
"""
