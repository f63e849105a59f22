"""The replay of preemptions in ``deviceshare lab conformance``."""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from deviceshare_lab.conformance.lines import decoded
from deviceshare_lab.conformance.outcomes import Outcome
from deviceshare_lab.conformance.preemption.recorded import Case
from deviceshare_lab.conformance.preemption.replay import replay
from deviceshare_lab.conformance.preemption.report import PreemptionSummary

_CASE = msgspec.json.Decoder(Case)


def is_of_preemption(keys: frozenset[str]) -> bool:
    """Return whether a file whose first line has these keys has clusters with the best victims."""
    return {"best", "volcano"} <= keys


def summarize(files: Sequence[Path]) -> PreemptionSummary:
    """Replay the cases of files.

    Raises:
        CommandError: a file or a line is invalid.
    """
    return PreemptionSummary(
        [Outcome(path, number, case, replay(case)) for path in files for number, _, case in decoded(path, _CASE)]
    )
