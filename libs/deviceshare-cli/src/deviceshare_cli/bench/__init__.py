"""``deviceshare bench``: how fast the whole system places pods on this machine, and how fast bare messages would be.

:mod:`~deviceshare_cli.bench.workload` (what is placed), :mod:`~deviceshare_cli.bench.measure` (the run),
:mod:`~deviceshare_cli.bench.traffic` (its messages), :mod:`~deviceshare_cli.bench.floor` (the same messages alone),
:mod:`~deviceshare_cli.bench.report` (both side by side).
"""
