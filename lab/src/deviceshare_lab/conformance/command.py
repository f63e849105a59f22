"""``deviceshare lab conformance``."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

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
from deviceshare_lab.conformance.lines import keys_of_first
from deviceshare_lab.conformance.preemption import command as preemption
from deviceshare_lab.conformance.preemption import unit_tests
from deviceshare_lab.conformance.recorded import FORMS
from deviceshare_lab.conformance.report import CaseOutcome, CaseSummary
from deviceshare_lab.conformance.sessions import command as sessions

KINDS: dict[str, tuple[ModuleType, bool]] = {
    "sessions": (sessions, True),
    "kube_scheduler": (kube_scheduler, False),
    "preemption": (preemption, False),
    "devices": (devices, False),
    "evictions": (unit_tests, True),
}
"""The kinds of recorded answers beside cases of Volcano's device code, by their names in JSON: what replays and reports
them, and whether ``as_volcano`` disables rules of ours."""


def conformance(files: Sequence[Path], *, verbose: bool = False, json: bool = False, as_volcano: bool = False) -> int:
    """Replay files, print the comparison, and return the exit status: 1 if a case or session failed."""
    kinds = {file: kind_of(file) for file in files}
    cases = CaseSummary([outcome for file in files if not kinds[file] for outcome in outcomes(file)])
    fails, texts = cases.fails, [report.as_text(cases, verbose)] if cases.outcomes else []
    objects: dict[str, Any] = {}
    for name, (kind, has_rules) in KINDS.items():
        if of_kind := [file for file in files if kinds[file] == name]:
            options = {"as_volcano": as_volcano} if has_rules else {}
            summary = kind.summarize(of_kind, **options)
            fails |= summary.fails
            texts.append(kind.as_text(summary, verbose))
            objects[name] = kind.as_object(summary)
    print(report.as_json(cases, objects) if json else "\n\n".join(texts))
    return int(fails)


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
