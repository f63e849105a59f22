"""The checker: a card holds what is bound to it, a pod is bound once and as its claim says, nothing is left over.

Simulated chaos, chaos on real processes and the tests on real API servers use it. It shares no code and no state with
the scheduler or with a workload: it reads objects as device plugins do, and streams.

:mod:`.cards` and :mod:`.objects` check objects; :mod:`.ledgers` and :mod:`.claims` follow claims, :mod:`.bindings` and
:mod:`.watched` pods; :mod:`.settled` and :mod:`.converged` say what is missing at rest, with :mod:`.feasibility`.
"""
