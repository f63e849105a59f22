"""``deviceshare check``: what deviceshare understands of a cluster before a migration. Reads only.

Reading order: :mod:`.inspection` (objects to findings, by the core of inventory; pure), :mod:`.components` (Volcano,
HAMi and device plugins), :mod:`.command` (reads the cluster or the files and prints).
"""
