"""Checkers that are independent of the workload and of the scheduler: :mod:`.cards`, :mod:`.objects`."""
