"""The replay of kube-scheduler's answers in ``deviceshare lab conformance``."""

from collections.abc import Sequence
from pathlib import Path

import msgspec
from deviceshare.model import DeviceshareError
from deviceshare_cli.errors import CommandError

from deviceshare_lab.conformance.kube_scheduler.recorded import Recorded
from deviceshare_lab.conformance.kube_scheduler.replay import replay
from deviceshare_lab.conformance.kube_scheduler.report import PluginSummary
from deviceshare_lab.conformance.lines import decoded
from deviceshare_lab.conformance.outcomes import Outcome

_RECORDED = msgspec.json.Decoder(Recorded)


def is_of_kube_scheduler(keys: frozenset[str]) -> bool:
    """Return whether a file whose first line has these keys has answers of kube-scheduler, or of its allocator."""
    return {"case", "answer"} <= keys


def summarize(files: Sequence[Path]) -> PluginSummary:
    """Replay the cases of files.

    Raises:
        CommandError: a file or a line is invalid.
    """
    outcomes = []
    for path in files:
        for number, where, recorded in decoded(path, _RECORDED):
            try:
                verdict = replay(recorded)
            except (DeviceshareError, LookupError, TypeError) as error:
                raise CommandError(f"{where}: not a recorded case: {error!r}") from None
            outcomes.append(Outcome(path, number, recorded.case, verdict))
    return PluginSummary(outcomes)
