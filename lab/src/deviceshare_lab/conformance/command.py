"""``deviceshare lab conformance``."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
from deviceshare.conf import FIRST_FIT, WEIGHT, DevicesConf, SchedulerConf, parse_conf
from deviceshare.model import ConfigError
from deviceshare_cli.errors import CommandError
from msgspec.structs import replace

from deviceshare_lab.conformance.batch import replay
from deviceshare_lab.conformance.cases import Answered, Case, Place, read_file
from deviceshare_lab.conformance.devices import command as devices
from deviceshare_lab.conformance.devices.command import is_of_devices
from deviceshare_lab.conformance.kube_scheduler.command import is_of_kube_scheduler
from deviceshare_lab.conformance.kube_scheduler.command import summarize as summarize_plugins
from deviceshare_lab.conformance.kube_scheduler.report import as_object as plugins_as_object
from deviceshare_lab.conformance.kube_scheduler.report import as_text as plugins_as_text
from deviceshare_lab.conformance.preemption import unit_tests
from deviceshare_lab.conformance.preemption.command import is_of_preemption
from deviceshare_lab.conformance.preemption.command import summarize as summarize_preemption
from deviceshare_lab.conformance.preemption.report import as_object as preemption_as_object
from deviceshare_lab.conformance.preemption.report import as_text as preemption_as_text
from deviceshare_lab.conformance.preemption.unit_tests import is_of_evictions
from deviceshare_lab.conformance.recorded import FORMS
from deviceshare_lab.conformance.report import Outcome, Summary, as_json, as_text
from deviceshare_lab.conformance.sessions.command import is_of_sessions, summarize
from deviceshare_lab.conformance.sessions.report import as_object as sessions_as_object
from deviceshare_lab.conformance.sessions.report import as_text as sessions_as_text


def conformance(files: Sequence[Path], *, verbose: bool = False, json: bool = False, as_volcano: bool = False) -> int:
    """Replay files, print the comparison, and return the exit status: 1 if a case or session failed."""
    of_preemption = [file for file in files if is_of_preemption(file)]
    of_evictions = [file for file in files if is_of_evictions(file)]
    of_sessions = [file for file in files if is_of_sessions(file) and file not in (*of_preemption, *of_evictions)]
    of_devices = [file for file in files if is_of_devices(file)]
    of_plugins = [file for file in files if is_of_kube_scheduler(file) and file not in of_devices]
    others = [
        file for file in files if file not in (*of_sessions, *of_plugins, *of_preemption, *of_evictions, *of_devices)
    ]
    cases = Summary([outcome for file in others for outcome in outcomes(file)])
    plugins = summarize_plugins(of_plugins)
    sessions = summarize(of_sessions, as_volcano=as_volcano)
    preemption = summarize_preemption(of_preemption)
    allocations = devices.summarize(of_devices)
    evictions = unit_tests.summarize(of_evictions, as_volcano=as_volcano)
    if json:
        more = {"sessions": sessions_as_object(sessions)} if of_sessions else {}
        if of_plugins:
            more["kube_scheduler"] = plugins_as_object(plugins)
        if of_preemption:
            more["preemption"] = preemption_as_object(preemption)
        if of_devices:
            more["devices"] = devices.as_object(allocations)
        if of_evictions:
            more["evictions"] = unit_tests.as_object(evictions)
        print(as_json(cases, more))
    else:
        texts = [as_text(cases, verbose)] if cases.outcomes else []
        texts += [sessions_as_text(sessions, verbose)] if of_sessions else []
        texts += [plugins_as_text(plugins, verbose)] if of_plugins else []
        texts += [preemption_as_text(preemption, verbose)] if of_preemption else []
        texts += [devices.as_text(allocations, verbose)] if of_devices else []
        texts += [unit_tests.as_text(evictions, verbose)] if of_evictions else []
        print("\n\n".join(texts))
    failed = cases.failed + sessions.failed + plugins.failed + len(evictions.failures) + len(allocations.failures)
    return int(failed > 0 or preemption.failed)


def outcomes(path: Path) -> Iterator[Outcome]:
    """Replay the cases of a file.

    Raises:
        CommandError: a file, a case or a configuration is invalid.
    """
    file = read_file(path)
    try:
        for number, case in file.cases:
            if problem := invalid(case):
                raise CommandError(f"{path}: line {number}: {problem}")
            yield Outcome(path, number, case, replay(case, configuration(case, file.devices[case.config])))
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
