"""``deviceshare simulate``: the order of jobs on a simulated cluster in simulated time.

The library decides (:mod:`deviceshare.queueing`, :mod:`deviceshare.allocation`); arrivals and ends of pods are
simulated. Reading order: :mod:`.cluster`, :mod:`.fairness`.
"""
