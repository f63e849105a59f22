"""The replay of kube-scheduler's answers in ``deviceshare lab conformance``."""

from collections.abc import Sequence
from pathlib import Path

import msgspec
from deviceshare.model import DeviceshareError
from deviceshare_cli.errors import CommandError

from deviceshare_lab.conformance.kube_scheduler.recorded import Recorded
from deviceshare_lab.conformance.kube_scheduler.replay import replay
from deviceshare_lab.conformance.kube_scheduler.report import PluginOutcome, PluginSummary
from deviceshare_lab.conformance.lines import decode_line, keys_of_first, read_lines

_RECORDED = msgspec.json.Decoder(Recorded)


def is_of_kube_scheduler(path: Path) -> bool:
    """Return whether a file has answers of kube-scheduler."""
    return {"case", "answer"} <= keys_of_first(path)


def summarize(files: Sequence[Path]) -> PluginSummary:
    """Replay the cases of files.

    Raises:
        CommandError: a file or a line is invalid.
    """
    outcomes = []
    for path in files:
        for number, line in read_lines(path):
            where = f"{path}: line {number}"
            recorded = decode_line(line, _RECORDED, where)
            try:
                verdict = replay(recorded)
            except (DeviceshareError, LookupError, TypeError) as error:
                raise CommandError(f"{where}: not a recorded case: {error!r}") from None
            outcomes.append(PluginOutcome(path, number, recorded, verdict))
    return PluginSummary(outcomes)
