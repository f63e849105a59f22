"""``deviceshare conformance``."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from deviceshare.conf import WEIGHT
from deviceshare.model import ConfigError

from deviceshare_cli.conformance.batch import replay
from deviceshare_cli.conformance.cases import Answered, Case, Place, read_file
from deviceshare_cli.conformance.configuration import configuration, device_configurations
from deviceshare_cli.conformance.recorded import FORMS
from deviceshare_cli.conformance.report import Outcome, Summary, as_json, as_text
from deviceshare_cli.conformance.sessions.command import is_of_sessions, summarize
from deviceshare_cli.conformance.sessions.report import as_object as sessions_as_object
from deviceshare_cli.conformance.sessions.report import as_text as sessions_as_text
from deviceshare_cli.errors import CommandError


def conformance(files: Sequence[Path], *, verbose: bool = False, json: bool = False, as_volcano: bool = False) -> int:
    """Replay files, print the comparison, and return the exit status: 1 if a case or session failed."""
    of_sessions = [file for file in files if is_of_sessions(file)]
    cases = Summary([outcome for file in files if file not in of_sessions for outcome in outcomes(file)])
    sessions = summarize(of_sessions, as_volcano=as_volcano)
    if json:
        print(as_json(cases, sessions_as_object(sessions) if of_sessions else None))
    else:
        texts = [as_text(cases, verbose)] if cases.outcomes else []
        texts += [sessions_as_text(sessions, verbose)] if of_sessions else []
        print("\n\n".join(texts))
    return int(cases.failed > 0 or sessions.failed > 0)


def outcomes(path: Path) -> Iterator[Outcome]:
    """Replay the cases of a file.

    Raises:
        CommandError: a file, a case or a configuration is invalid.
    """
    file = read_file(path)
    try:
        devices = device_configurations(file)
        for number, case in file.cases:
            if problem := invalid(case):
                raise CommandError(f"{path}: line {number}: {problem}")
            yield Outcome(path, number, case, replay(case, configuration(case, devices)))
    except ConfigError as error:
        raise CommandError(f"{path}: {error}") from None


def invalid(case: Case) -> str:
    """Return why a case is not valid for its family, '' if it is."""
    form = FORMS.get(case.family)
    if form is None:
        return f"family: {case.family!r} is none of {', '.join(sorted(FORMS))}"
    nodes = case.batch.nodes if case.batch is not None else ()
    answers: dict[str, Answered] = {f"steps[{number}]": step for number, step in enumerate(case.steps)}
    answers |= {f"batch.nodes[{number}]": node for number, node in enumerate(nodes)}
    if case.initial is not None:
        answers["initial"] = case.initial
    for field, answered in answers.items():
        if case.initial is not None and case.initial.present and answered.state is None:
            return f"{field}.state: required for a node with devices"
        for number, row in enumerate(answered.state or ()):
            if len(row) != form.columns:
                return f"{field}.state[{number}]: expected {form.columns} values, got {len(row)}"
    for number, step in enumerate(case.steps):
        if isinstance(step, Place) and step.filter.fits and not step.filter.skipped:
            if step.allocate is None:
                return f"steps[{number}].allocate: required for a pod that fits"
            if step.score is None and case.args.get(WEIGHT):
                return f"steps[{number}].score: required for a pod that fits if scores have a weight"
    return ""
