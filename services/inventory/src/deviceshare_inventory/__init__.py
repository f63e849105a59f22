"""Inventory: reads the cluster and publishes typed facts on CLUSTER.

Reading order: :mod:`~deviceshare_inventory.core` (the state machine), :mod:`~deviceshare_inventory.service` (the watch
and the calls to the cluster).
"""
