"""The checker: a card holds what is bound to it, a pod is bound once and as its claim says, nothing is left over.

Simulated chaos, chaos on real processes and the tests on real API servers use it. It shares no code and no state with
the scheduler or with a workload: it reads objects as device plugins do, and streams.

:mod:`.cards` and :mod:`.objects` check objects; :mod:`.pods` follows what is bound, :mod:`.claims` what is claimed, and
:mod:`.ledgers` in addition where every write is heard of; :mod:`.at_rest` says what is missing at rest, and
:mod:`.settled` in addition, with :mod:`.feasibility`, which waiting pods would fit.
"""

from typing import NamedTuple


class Violation(NamedTuple):
    """A broken rule; ``at`` is the time in seconds: virtual in a simulation, else unix time."""

    rule: str
    text: str
    at: float
