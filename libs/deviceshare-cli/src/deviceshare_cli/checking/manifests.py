"""Manifests into the objects that ``up`` would make of them: admitted, and the pods of workloads. Pure."""

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from deviceshare.conf import Origin, YamlText
from deviceshare.model import Problem
from deviceshare_localcluster import Manifest, Manifests
from deviceshare_localcluster.kinds import KUBERNETES_JOB, Key, known_kind
from deviceshare_localcluster.workloads import pod_template_paths

from deviceshare_cli.checking.findings import Finding, invalid, sentence
from deviceshare_cli.simulate.objects import ObjectMaker
from deviceshare_cli.simulate.volumes import with_phases

_UNREAD = ("Secret", "Service", "Event")
"""Kinds by which nothing is decided."""
_MISSING_UNCHECKED = "its pods that do not exist yet are not checked"


class Given(NamedTuple):
    """The objects to inspect, by kind.

    ``numbers``: how many were given of each kind, None if these are all of ``objects``; ``skipped``: objects of kinds
    that are not inspected; ``findings``: what the API server would refuse or warn of, and skipped objects with pods;
    ``refused``: how many of ``numbers`` have such an error; ``sources``: the names of the objects given, by those of
    the objects made of them.
    """

    objects: Mapping[str, Sequence[Mapping[str, Any]]]
    numbers: Mapping[str, int] | None = None
    skipped: Mapping[str, int] = {}
    findings: Sequence[Finding] = ()
    refused: Mapping[str, int] = {}
    sources: Mapping[str, str] = {}


def of_manifests(manifests: Manifests, now: float) -> Given:
    """Return the objects of a local cluster that is made of manifests; ``now`` in unix seconds."""
    numbers, skipped = Counter[str](), Counter[str]()
    for manifest in manifests.manifests:
        kind = _counted_kind(manifest)
        if kind is None:
            skipped[manifest.object["kind"]] += 1
        else:
            numbers[kind] += 1
    maker = ObjectMaker(_timestamp(now), makes_queues=True)
    maker.make(manifests)
    findings = [_refused(manifest, problem) for manifest, problem in maker.refused]
    findings += (sentence("warning", place, text, "") for place, text in maker.warned)
    objects: dict[str, list[Mapping[str, Any]]] = {}
    for key, obj in (maker.objects | with_phases(maker.objects.values())).items():
        objects.setdefault(key.kind, []).append(obj)
    refused = Counter(kind for each, _ in maker.refused if each is not None and (kind := _counted_kind(each)))
    return Given(objects, numbers, skipped, findings, refused, _sources(maker, maker.objects))


def _counted_kind(manifest: Manifest) -> str | None:
    """Return the kind by which a manifest is counted, None for one that is skipped."""
    kind = known_kind(manifest.object["apiVersion"], manifest.object["kind"])
    return None if kind is None or kind.name in _UNREAD else _shown_kind(kind.name)


def _shown_kind(name: str) -> str:
    """Return a kind as it is counted: Volcano and Kubernetes have a Job."""
    return "Job.batch" if name == KUBERNETES_JOB else name


def _sources(maker: ObjectMaker, made: Iterable[Key]) -> dict[str, str]:
    known = ((key, maker.sources[key]) for key in made if key in maker.sources)
    return {str(key): str(source._replace(kind=_shown_kind(source.kind))) for key, source in known}


def _refused(manifest: Manifest | None, problem: Problem) -> Finding:
    if manifest is None:
        return invalid(problem.subject, problem, "the file is not read")
    place = manifest.origin.locate(problem.field)
    if known_kind(manifest.object["apiVersion"], manifest.object["kind"]) is not None:
        return invalid(problem.subject, problem, f"the API server rejects it ({place})")
    if any(pod_template_paths(manifest.object)):
        return invalid(problem.subject, problem, f"its pods are not checked ({place})")
    return sentence("warning", problem.subject, "its kind is not inspected", f"it is skipped ({place})")


def with_jobs(objects: Mapping[str, Sequence[Mapping[str, Any]]], now: float) -> Given:
    """Return the objects of a cluster, and the pods of Volcano's Jobs that do not exist yet; ``now`` in unix seconds.

    A Job has none while its PodGroup waits for its queue, and lacks those that were deleted or not made yet.
    """
    jobs = [job for job in objects["Job"] if not _has_ended(job)]
    manifests = [Manifest(dict(job), Origin(f"Job {job['metadata']['name']}", YamlText(""))) for job in jobs]
    maker = ObjectMaker(_timestamp(now), [dict(each) for each in objects["PriorityClass"]])
    maker.make(Manifests(manifests, []))
    existing = {Key(kind, *_name(obj)) for kind in ("Pod", "PodGroup") for obj in objects[kind]}
    missing = {key: obj for key, obj in maker.objects.items() if key not in existing}
    found = {kind: list(each) for kind, each in objects.items()}
    for key, obj in missing.items():
        found[key.kind].append(obj)
    numbers = {kind: len(each) for kind, each in objects.items() if each}
    findings = [invalid(problem.subject, problem, _MISSING_UNCHECKED) for _, problem in maker.refused]
    return Given(found, numbers, {}, findings, {"Job": len(findings)}, _sources(maker, missing))


def _name(obj: Mapping[str, Any]) -> tuple[str, str]:
    return obj["metadata"]["namespace"], obj["metadata"]["name"]


def _has_ended(job: Mapping[str, Any]) -> bool:
    state = (job.get("status") or {}).get("state") or {}
    return state.get("phase") not in (None, "", "Pending", "Running", "Restarting")


def _timestamp(now: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now))
