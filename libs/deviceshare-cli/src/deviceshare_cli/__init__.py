"""The command ``deviceshare``: starts the whole system on a local cluster, changes that, shows what is where and why.

Reading order: :mod:`~deviceshare_cli.main` (the command line), :mod:`~deviceshare_cli.system` (what ``up`` starts),
:mod:`~deviceshare_cli.settled` (when it is done).
"""
