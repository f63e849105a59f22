"""Inventory: reads the cluster, publishes typed facts on CLUSTER.

Reading order: :mod:`~deviceshare_inventory.core` (what the cluster's changes mean),
:mod:`~deviceshare_inventory.desired_state` (what stands on the bus and what should),
:mod:`~deviceshare_inventory.configs` (which configuration holds), :mod:`~deviceshare_inventory.shell` (the bytes moved,
the clock).
"""
