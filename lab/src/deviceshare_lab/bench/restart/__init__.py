"""``deviceshare lab bench restart``: CPU time and memory of each service that starts on a full bus.

:mod:`.contents` (what is on the bus and in the cluster), :mod:`.measure` (the restarts), :mod:`.command` (the report).
"""
