"""The binder: binds the pods of the ledger's claims and reports the results to users.

Reading order: :mod:`~deviceshare_binder.core` (the state machine), :mod:`~deviceshare_binder.service` (its streams and
the calls to the cluster).
"""
