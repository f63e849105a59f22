"""The whole system in one process and in virtual time, with faults: ``deviceshare lab chaos --simulated``.

A history is one seed: a small cluster, some pods, some faults, and a check that everything settles afterwards.

Reading order: :mod:`.scenario` (what is done, as data), :mod:`.workload` and :mod:`.faults` (what can be done),
:mod:`.simulation` (how a history is played) in a :mod:`.system` of :mod:`.processes` (the product's services) in the
:mod:`deviceshare_lab.world`; :mod:`.checkers` and :mod:`.knowledge` (what the :mod:`deviceshare_lab.checker` hears);
:mod:`.history` and :mod:`.minimise` (how a violation is shown); :mod:`.command`.

:mod:`.real` injects faults into real processes: ``deviceshare lab chaos``.
"""
