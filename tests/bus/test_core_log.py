"""The bound of the core log."""

import io

from deviceshare_bus.core import CaughtUp, Event, Now
from deviceshare_bus.core_log import CoreLog, read_dump


class Large(Event, frozen=True):
    number: int

    @property
    def size(self) -> int:
        return self.number


def dumped(*events: Event) -> tuple[int, int]:
    """Return how many entries a log of size 10 keeps and how many it has dropped."""
    log = CoreLog("test", "test", {}, limit=10)
    for event in events:
        log.append(Now(0.0, 0.0), event, [])
    header, entries = read_dump(io.BytesIO(log.dump()))
    return len(list(entries)), header.dropped


def test_the_sizes_of_events_count_against_the_bound():
    small = CaughtUp("CLUSTER")
    assert dumped(*[small] * 12) == (10, 2)
    assert dumped(*[small] * 10, Large(4)) == (7, 4)
    assert dumped(small, Large(100)) == (1, 1), "the latest event is kept"
    assert dumped(Large(100), small) == (1, 1)
