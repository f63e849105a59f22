"""``deviceshare lab study partitions``: acceptance of pods on clusters of MIG cards and of Ascend chips with templates.

Reading order: :mod:`.clusters` (hardware and profiles), :mod:`.arrivals`, :mod:`.product` and :mod:`.baselines` (what
places pods), :mod:`.run`, :mod:`.command`, :mod:`.report`.
"""
