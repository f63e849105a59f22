"""``deviceshare bench bus``: how fast the whole system places pods here, and how fast bare messages would be.

:mod:`.workload` (what is placed), :mod:`.measure` (the run), :mod:`.traffic` (its messages), :mod:`.floor` (the same
messages alone), :mod:`.report` (both side by side).
"""
