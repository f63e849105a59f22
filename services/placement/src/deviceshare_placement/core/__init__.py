"""The placement core: events in (facts, ledgers, outcomes, acknowledgements, time), instructions out.

It knows no bus and no clock, so that every race can be replayed in a test. :mod:`~deviceshare_placement.core.machine`
is the whole story; the other modules are its nouns.
"""

from deviceshare_placement.core.instructions import Instructions, LedgerWrite, Publication
from deviceshare_placement.core.machine import PlacementCore

__all__ = ["Instructions", "LedgerWrite", "PlacementCore", "Publication"]
