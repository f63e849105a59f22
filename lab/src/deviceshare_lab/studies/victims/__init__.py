"""``deviceshare lab study victims``: who is evicted for a waiting group, against a search that tries every set of pods.

Reading order: :mod:`.random_cluster`, :mod:`.exact` (shares no code with the scheduler), :mod:`.comparison`.
"""
