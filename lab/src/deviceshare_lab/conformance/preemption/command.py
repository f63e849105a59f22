"""The replay of preemptions in ``deviceshare lab conformance``."""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from deviceshare_lab.conformance.lines import decode_line, keys_of_first, read_lines
from deviceshare_lab.conformance.preemption.recorded import Case
from deviceshare_lab.conformance.preemption.replay import replay
from deviceshare_lab.conformance.preemption.report import CaseOutcome, PreemptionSummary

_CASE = msgspec.json.Decoder(Case)


def is_of_preemption(path: Path) -> bool:
    """Return whether a file has clusters with the best victims."""
    return {"best", "volcano"} <= keys_of_first(path)


def summarize(files: Sequence[Path]) -> PreemptionSummary:
    """Replay the cases of files.

    Raises:
        CommandError: a file or a line is invalid.
    """
    return PreemptionSummary(
        [
            CaseOutcome(path, number, case, replay(case))
            for path in files
            for number, line in read_lines(path)
            for case in [decode_line(line, _CASE, f"{path}: line {number}")]
        ]
    )
