"""Placement: decides which node and which devices each pod gets, or says why none.

:mod:`deviceshare_placement.core` is a pure state machine, :mod:`deviceshare_placement.shell` moves its bytes.
"""
