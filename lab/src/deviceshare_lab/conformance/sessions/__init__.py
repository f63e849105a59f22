"""Compares whole sessions of Volcano's scheduler with ours: pods, nodes, devices and order of placements.

Reading order: :mod:`~deviceshare_lab.conformance.sessions.recorded` (the recorded form), ``facts`` (its decoded
objects), ``player`` (the scheduler on a recorded cluster), ``rules`` (deliberate differences, each with the argument
that disables it), ``replay`` (the rules that explain a difference) and ``command`` (files,
and the report).
"""
