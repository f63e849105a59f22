"""``deviceshare fit``, ``top`` and ``explain pod --preempt``: what fits now, what there is, and who would be evicted.

Reading order: :mod:`.manifests` (the pods to place), :mod:`.unknown_claims` (their volumes that cannot be evaluated),
:mod:`.fitting` (placing them on a copy of the live state, with the code of placement; pure), :mod:`.missing` (who holds
what they lack), :mod:`.fit` (the command), :mod:`.top`; :mod:`.preemption` (which pods would be evicted for a pod).
"""
