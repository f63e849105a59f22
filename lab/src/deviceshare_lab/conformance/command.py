"""``deviceshare lab conformance``."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from deviceshare.conf import FIRST_FIT, WEIGHT, DevicesConf, SchedulerConf, parse_conf
from deviceshare.model import ConfigError
from deviceshare_cli.errors import CommandError
from msgspec.structs import replace

from deviceshare_lab.conformance import report
from deviceshare_lab.conformance.batch import replay
from deviceshare_lab.conformance.cases import Answered, Case, Place, read_file
from deviceshare_lab.conformance.devices import command as devices
from deviceshare_lab.conformance.kube_scheduler import command as kube_scheduler
from deviceshare_lab.conformance.kube_scheduler import report as of_plugins
from deviceshare_lab.conformance.lines import keys_of_first
from deviceshare_lab.conformance.preemption import command as preemption
from deviceshare_lab.conformance.preemption import report as of_preemption
from deviceshare_lab.conformance.preemption import unit_tests
from deviceshare_lab.conformance.recorded import FORMS
from deviceshare_lab.conformance.report import CaseOutcome, CaseSummary
from deviceshare_lab.conformance.sessions import command as sessions
from deviceshare_lab.conformance.sessions import report as of_sessions


class Kind(NamedTuple):
    """A kind of recorded answers: how its files are replayed, without our rules if the second argument says so."""

    summarize: Callable[[Sequence[Path], bool], Any]
    failed: Callable[[Any], int]
    as_text: Callable[[Any, bool], str]
    as_object: Callable[[Any], dict[str, Any]]


def _failed(summary: Any) -> int:
    return int(summary.failed)


KINDS = {
    "sessions": Kind(
        lambda files, off: sessions.summarize(files, as_volcano=off),
        _failed,
        of_sessions.as_text,
        of_sessions.as_object,
    ),
    "kube_scheduler": Kind(
        lambda files, _: kube_scheduler.summarize(files), _failed, of_plugins.as_text, of_plugins.as_object
    ),
    "preemption": Kind(
        lambda files, _: preemption.summarize(files),
        lambda summary: int(summary.not_enough),
        of_preemption.as_text,
        of_preemption.as_object,
    ),
    "devices": Kind(lambda files, _: devices.summarize(files), _failed, devices.as_text, devices.as_object),
    "evictions": Kind(
        lambda files, off: unit_tests.summarize(files, as_volcano=off),
        _failed,
        unit_tests.as_text,
        unit_tests.as_object,
    ),
}
"""By their names in JSON, in the order of the report; cases of Volcano's device code come before them."""


def conformance(files: Sequence[Path], *, verbose: bool = False, json: bool = False, as_volcano: bool = False) -> int:
    """Replay files, print the comparison, and return the exit status: 1 if a case or session failed."""
    kinds = {file: kind_of(file) for file in files}
    cases = CaseSummary([outcome for file in files if not kinds[file] for outcome in outcomes(file)])
    failed, texts = cases.failed, [report.as_text(cases, verbose)] if cases.outcomes else []
    objects: dict[str, Any] = {}
    for name, kind in KINDS.items():
        if of_kind := [file for file in files if kinds[file] == name]:
            summary = kind.summarize(of_kind, as_volcano)
            failed += kind.failed(summary)
            texts.append(kind.as_text(summary, verbose))
            objects[name] = kind.as_object(summary)
    print(report.as_json(cases, objects) if json else "\n\n".join(texts))
    return int(failed > 0)


def kind_of(file: Path) -> str:
    """Return which of :data:`KINDS` a file has, by its first line; '' if it has cases of device code."""
    keys = keys_of_first(file)
    if preemption.is_of_preemption(keys):
        return "preemption"
    if unit_tests.is_of_evictions(keys):
        return "evictions"
    if sessions.is_of_sessions(keys):
        return "sessions"
    if kube_scheduler.is_of_kube_scheduler(keys):
        return "devices" if devices.is_of_devices(file) else "kube_scheduler"
    return ""


def outcomes(path: Path) -> Iterator[CaseOutcome]:
    """Replay the cases of a file.

    Raises:
        CommandError: a file, a case or a configuration is invalid.
    """
    file = read_file(path)
    try:
        for number, case in file.cases:
            if problem := invalid(case):
                raise CommandError(f"{path}: line {number}: {problem}")
            yield CaseOutcome(path, number, case, replay(case, configuration(case, file.devices[case.config])))
    except ConfigError as error:
        raise CommandError(f"{path}: {error}") from None


def configuration(case: Case, devices: DevicesConf) -> SchedulerConf:
    """Return the configuration from the case's arguments and its device configuration.

    As Volcano does, it takes the first geometry of a MIG card that fits, allows templates and HAMi-core on one Ascend
    chip at a time, allocates whole cards of nodes whose device plugin shares their memory, and reads models as parts of
    words (only those that are no whole word).
    """
    plugins = [{"name": "deviceshare", "arguments": case.args}]
    text = msgspec.json.encode({"tiers": [{"plugins": plugins}]}).decode()
    conf = parse_conf(text, f"args of {case.id}")
    return replace(
        conf, mig_geometry=FIRST_FIT, mixed_chips=True, number_on_shared_nodes=True, type_parts=True, devices=devices
    )


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
