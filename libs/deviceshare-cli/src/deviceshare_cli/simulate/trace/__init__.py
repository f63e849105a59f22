"""``deviceshare simulate trace``: policies on the pods and nodes of a recorded trace.

Reading order: :mod:`.reading` (the files of a trace), :mod:`.arrivals` (the order in which pods arrive),
:mod:`.policies`, :mod:`.run` (one workload, policy and seed), :mod:`.command`, :mod:`.report`.
"""
