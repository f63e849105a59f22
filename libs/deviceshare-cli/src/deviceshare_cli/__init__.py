"""The command ``deviceshare``: starts the whole system, changes the local cluster, and shows decisions and reasons.

Reading order: :mod:`~deviceshare_cli.main` (the command line), :mod:`~deviceshare_cli.system` (what ``up`` starts),
:mod:`~deviceshare_cli.settled` (when all work is done).
"""
