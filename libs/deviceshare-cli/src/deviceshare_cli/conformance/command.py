"""``deviceshare conformance``."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from deviceshare.errors import ConfigError

from deviceshare_cli.conformance.batch import replay
from deviceshare_cli.conformance.cases import read_file
from deviceshare_cli.conformance.configuration import configuration, device_configurations
from deviceshare_cli.conformance.recorded import FORMS
from deviceshare_cli.conformance.report import Outcome, Summary, as_json, as_text
from deviceshare_cli.errors import CommandError


def conformance(files: Sequence[Path], *, verbose: bool, json: bool) -> int:
    """Replay the cases of files, print what became of them, and return the exit status."""
    summary = Summary([outcome for file in files for outcome in outcomes(file)])
    print(as_json(summary) if json else as_text(summary, verbose))
    return int(not summary.good)


def outcomes(path: Path) -> Iterator[Outcome]:
    """Replay the cases of a file.

    Raises:
        CommandError: for a file, a case or a configuration that cannot be used.
    """
    file = read_file(path)
    try:
        devices = device_configurations(file)
        for number, case in file.cases:
            if case.family not in FORMS:
                known = ", ".join(sorted(FORMS))
                raise CommandError(f"{path}: line {number}: family: {case.family!r} is none of {known}")
            yield Outcome(path, number, case, replay(case, configuration(case, devices)))
    except ConfigError as error:
        raise CommandError(f"{path}: {error}") from None
