"""Compares our victims with those of an exact search: on recorded clusters the fewest victims are known.

Reading order: :mod:`~deviceshare_lab.conformance.preemption.recorded` (the recorded form), ``player`` (the scheduler on
a recorded cluster), ``judge`` (what may be said of victims by the objects alone), ``replay`` (the comparison) and
``command`` (files, and the report).
"""
