"""Failed cases and sessions of a report."""

from collections.abc import Sequence

import msgspec

from deviceshare_lab.conformance import replay
from deviceshare_lab.conformance.sessions import replay as sessions

SHOWN_FAILURES = 3


class Failure(msgspec.Struct, frozen=True):
    """A failed case or session: its id, file and line, and the unexplained differences."""

    id: str
    file: str
    line: int
    differences: Sequence[replay.Difference | sessions.Difference]

    def as_text(self, most: int | None) -> str:
        """Return at most ``most`` differences: ``-`` as recorded, ``+`` ours."""
        shown = self.differences[:most]
        lines = [f"FAILED {self.id} ({self.file}, line {self.line}; - recorded, + ours)"]
        for each in shown:
            lines += [f"  {each.title}", f"  - {each.recorded}", f"  + {each.ours}"]
        if len(shown) < len(self.differences):
            lines.append(f"  … and {len(self.differences) - len(shown)} more")
        return "\n".join(lines)


def blocks(failures: Sequence[Failure], *, verbose: bool, most: int | None = None) -> list[str]:
    """Return the text of each failure, or without ``verbose`` of the first ones with ``most`` differences each."""
    if verbose:
        return [failure.as_text(None) for failure in failures]
    shown = [failure.as_text(most) for failure in failures[:SHOWN_FAILURES]]
    if len(failures) > SHOWN_FAILURES:
        shown.append(f"… and {len(failures) - SHOWN_FAILURES} more failures: --verbose shows all")
    return shown
