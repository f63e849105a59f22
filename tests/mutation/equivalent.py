"""Mutants that behave as the code does, each with the reason: the report lists them and does not count them.

An entry needs a reason that holds for every input. A mutant that only no test notices is not equivalent. Bounds of
caches count as equivalent if the cached function is pure: one entry more changes memory and time only.
"""

import difflib
from dataclasses import dataclass

from mutation.mutants import Mutant


@dataclass(frozen=True)
class Equivalent:
    """A change of one line that changes no behaviour."""

    path: str
    """Relative to ``libs`` or ``services``, without ``src``."""
    before: str
    after: str
    reason: str

    def is_of(self, mutant: Mutant, source: str) -> bool:
        """Say whether a mutant of a module with this source is the change."""
        if not mutant.path.as_posix().endswith(self.path):
            return False
        lines = list(difflib.unified_diff(source.splitlines(), mutant.code.splitlines(), n=0, lineterm=""))[2:]
        removed = [line[1:].strip() for line in lines if line.startswith("-")]
        added = ["".join(line[1:].split()) for line in lines if line.startswith("+")]
        return (removed, added) == ([self.before], ["".join(self.after.split())])


_BOUND = "The bound of a cache of a pure function: one entry more."
_HASH = "msgspec computes the hash of a frozen struct again instead of keeping it: the same hash."

EQUIVALENT = (
    Equivalent(
        "deviceshare/families/vgpu/section.py",
        "class VgpuConf(DeviceSection, frozen=True, kw_only=True, cache_hash=True):",
        "class VgpuConf(DeviceSection, frozen=True, kw_only=True, cache_hash=False):",
        _HASH,
    ),
    Equivalent("deviceshare/families/vgpu/geometry.py", "@lru_cache(maxsize=4096)", "@lru_cache(maxsize=4097)", _BOUND),
    Equivalent("deviceshare/queueing/amounts.py", "_MAX_KNOWN = 4096", "_MAX_KNOWN = 4097", _BOUND),
    Equivalent(
        "deviceshare/queueing/hdrf.py",
        "self.saturated, self.share = True, 0.0",
        "self.saturated, self.share = False, 0.0",
        "The job has no share and is in no set of its new parent: counting it out changes nothing, either way.",
    ),
    Equivalent(
        "deviceshare/queueing/reservation.py",
        "class Reservation(msgspec.Struct, frozen=True):",
        "class Reservation(msgspec.Struct, frozen=False):",
        "Nothing assigns to the fields of a reservation, and nothing hashes one.",
    ),
    Equivalent(
        "deviceshare/queueing/policies/proportion.py",
        "for account, fair in zip(accounts, found, strict=True):",
        "for account, fair in zip(accounts, found, strict=False):",
        "Both functions that compute the amounts return one entry for each account.",
    ),
    Equivalent(
        "deviceshare/families/hami_vnpu/placing.py",
        "_TAKEN = -1",
        "_TAKEN = ~1",
        "-2 instead of -1: compared with 0 (not taken) and with numbers of templates, which are positive.",
    ),
)


def find(mutant: Mutant, source: str) -> Equivalent | None:
    """Return the entry of a mutant of a module with this source, or None."""
    return next((entry for entry in EQUIVALENT if entry.is_of(mutant, source)), None)
