"""Chaos on real processes: ``deviceshare lab chaos``.

A system as ``up`` starts it, with replicas and a proxy in front of each connection; a workload; faults; a checker.

Reading order: :mod:`.options` (what a run does), :mod:`.run` (its groups of faults), :mod:`.schedule` (which and when),
:mod:`.system` (the processes) with :mod:`.proxy` (their connections), :mod:`.workload` (what users and operators do),
:mod:`.faults` (what breaks) with :mod:`.bus_faults` and :mod:`.hostile`, :mod:`.judge` with :mod:`.stream_reader` (what
the :mod:`deviceshare_lab.checker` reads), :mod:`.report` (what is shown).
"""
