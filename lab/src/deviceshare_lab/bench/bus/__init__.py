"""``deviceshare lab bench bus``: throughput of the whole system, and of the same messages alone.

:mod:`.workload` (nodes and pods), :mod:`.measure` (the run), :mod:`.pods`
(creation and binding), :mod:`.stages` (latencies), :mod:`.traffic` (its messages), :mod:`.floor` (the same
messages alone), :mod:`.command` (the comparison).
"""
