"""``deviceshare check``: what deviceshare understands of a cluster before a migration. Reads only.

Reading order: :mod:`.manifests` (files to objects), :mod:`.inspection` (objects to findings, by the core of inventory),
:mod:`.placing` (by the core of placement), :mod:`.components` (Volcano, HAMi and device plugins), all of them pure;
:mod:`.command` (reads the cluster or the files and prints).
"""
