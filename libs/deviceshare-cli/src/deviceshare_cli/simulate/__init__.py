"""``deviceshare simulate``: the order of work on a made-up cluster in made-up time.

The library decides (:mod:`deviceshare.queueing`, :mod:`deviceshare.allocation`); arrivals and ends of pods are
simulated. Read :mod:`.cluster`, then :mod:`.fairness`.
"""
