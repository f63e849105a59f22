"""Measures the dashboard in a real Chromium: time to the first map, frames per second under changes, bytes sent.

Reading order: :mod:`.synthetic` (a cluster with changes), :mod:`.served` (the metrics service's own HTTP server over
it), :mod:`.chromium`, :mod:`.measure`, :mod:`.screenshots`, :mod:`.command`.
"""
