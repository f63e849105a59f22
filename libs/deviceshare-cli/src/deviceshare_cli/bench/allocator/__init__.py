"""``deviceshare bench allocator``: how fast one process on one core decides, and how fast it could be at most.

:mod:`.workload` (what is placed), :mod:`.files` (read from a file), :mod:`.generated` (made up, for each family),
:mod:`.measure` (the run), :mod:`.floor` (the bookkeeping alone), :mod:`.report`.
"""
