"""Whole sessions of Volcano's scheduler beside ours: which pods are placed, where, with which devices, in which order.

Read :mod:`~deviceshare_cli.conformance.sessions.recorded` (what was recorded), then ``player`` (how our placement core
runs a recorded cluster), ``rules`` (deliberate differences, each with the argument that disables it), ``replay`` (which
rules explain a difference) and ``report``.
"""
