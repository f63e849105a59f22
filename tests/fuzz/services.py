"""Objects as users apply them: accepted objects go through inventory and placement, as on the bus."""

import re
from collections.abc import Sequence
from typing import Any

import msgspec
from deviceshare.model import AnyFact, RequestError
from deviceshare_bus.cores.core import CaughtUp, Now, PutLatest, Tick, Write, Written
from deviceshare_cluster.interface import Change, ChangeType, Listed
from deviceshare_localcluster.admission import Priorities, admit
from deviceshare_localcluster.jobs import companion_objects, pod_maker, pod_names
from deviceshare_localcluster.kinds import KINDS as ALL_KINDS
from deviceshare_localcluster.kinds import as_read, encode, key_of
from deviceshare_localcluster.manifests import parse_manifests
from deviceshare_localcluster.workloads import WORKLOADS, Owned, PodState, desired
from deviceshare_placement.core import FactReceived, PlacementCore
from fuzz.chain import KINDS
from fuzz.mutations import trees
from hypothesis import strategies as st
from support.example_cluster import NOW, objects
from support.inventory import Bus, Driver, execute

_SUBJECT = re.compile(r"[^\s.*>]+(\.[^\s.*>]+)+")
AT = Now(1000.0, NOW)
_CREATED = "2026-02-03T08:00:00Z"
_MAX_PODS = 3
"""Pods of a Job that are looked at: it may ask for any number. Likewise of other workloads."""


def clusters() -> st.SearchStrategy[Sequence[Any]]:
    """Return a few objects, most of them as they should be."""
    all_of_them = [
        {**obj, "metadata": {**obj["metadata"], "uid": f"u-{number}"}} for number, obj in enumerate(objects().values())
    ]
    by_kind = [[obj for obj in all_of_them if f'"{kind}' in str(obj).replace("'", '"')] for kind in KINDS]
    lists = [
        st.lists(st.sampled_from(group) | trees(*group, *all_of_them), min_size=1, max_size=10) for group in by_kind
    ]
    return st.one_of(lists)


def serve(given: Sequence[Any]) -> None:
    """Do what the API server, inventory and placement do; raises where one of them does not stand its input."""
    core, bus = Driver(schedulers=frozenset({"volcano"})), Bus()
    core.begin_list()
    changes = [change for obj in given for change in _changes(obj)]
    half = len(changes) // 2
    core.deliver([*changes[:half], Listed(half)])
    placement = PlacementCore("fuzz", "fuzz")
    _pass_on(core, bus, placement)
    for stream in ("CLUSTER", "LEDGER", "OUTCOME"):
        placement.handle(CaughtUp(stream), AT)
    core.deliver(changes[half:])
    _pass_on(core, bus, placement)
    for _ in range(3):
        for command in placement.handle(Tick(), AT):
            match command:
                case PutLatest(subject=subject, message=message):
                    _sendable(subject, message)
                case Write(token=token, writes=writes):
                    for write in writes:
                        _sendable(write.subject, write.message)
                    placement.handle(Written(token, len(writes)), AT)


def _changes(obj: Any) -> list[Change]:
    """Return the object as the API server shows it, and what the job controller makes of it; [] if it is refused."""
    if not isinstance(obj, dict):
        return []
    made = [obj]
    changes: list[Change] = []
    while made:
        try:
            stored = admit(
                made.pop(), uid=f"new-{len(changes)}", now="2026-02-03T08:00:00Z", priorities=Priorities()
            ).object
        except RequestError as error:
            msgspec.msgpack.encode(error.problem)
            continue
        kind, namespace, name = key_of(stored)
        raw = as_read(kind, encode(stored), 7)
        assert msgspec.json.decode(raw)["metadata"]["resourceVersion"] == "7"
        changes.append(Change(ChangeType.APPLIED, kind, namespace, name, 7, raw))
        if kind == "Job":
            made += companion_objects(stored, {})
            makers = {task["name"]: pod_maker(stored, task) for task in stored["spec"]["tasks"]}
            made += [
                makers[task["name"]](index)
                for (_, task, index), _ in zip(pod_names(stored), range(_MAX_PODS), strict=False)
            ]
        elif kind in WORKLOADS:
            found = desired(stored, Owned())
            again = desired(stored, Owned({pod["metadata"]["name"]: PodState("Failed") for pod in found.created}))
            made += [*found.created[:_MAX_PODS], *found.updated[:_MAX_PODS], *again.created[:_MAX_PODS]]
    return changes


def _pass_on(core: Driver, bus: Bus, placement: PlacementCore) -> None:
    """Let placement read what inventory writes."""
    while commands := core.take():
        for command in commands:
            match command:
                case Write(writes=(write,)):
                    data = write.message
                case PutLatest():
                    write, data = command, msgspec.msgpack.encode(command.message)
                case _:
                    execute(core, bus, command)
                    continue
            assert _SUBJECT.fullmatch(write.subject), write.subject
            fact = msgspec.msgpack.decode(data, type=AnyFact)
            placement.handle(FactReceived(write.subject, fact), AT)
            execute(core, bus, command)


def _sendable(subject: str, message: msgspec.Struct) -> None:
    assert _SUBJECT.fullmatch(subject), subject
    msgspec.msgpack.encode(message)


def workloads() -> st.SearchStrategy[Any]:
    """Return workloads, most of them as they should be."""
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    once = {"template": template | {"spec": template["spec"] | {"restartPolicy": "Never"}}}
    ray = {"headGroupSpec": {"template": template}, "workerGroupSpecs": [{"groupName": "g", "template": template}]}
    replicas = {"Launcher": {"template": template}, "Worker": {"replicas": 2, "template": template}}
    job_set = {"replicatedJobs": [{"name": "j", "replicas": 2, "template": {"spec": once}}]}
    specs = {
        "batch/v1 Job": {"completions": 2, "completionMode": "Indexed", "backoffLimit": 1, **once},
        "batch/v1 CronJob": {"schedule": "@daily", "jobTemplate": {"spec": once}},
        "kubeflow.org/v2beta1 MPIJob": {"mpiReplicaSpecs": replicas, "runPolicy": {"schedulingPolicy": {"queue": "q"}}},
        "kubeflow.org/v1 Notebook": {"template": template},
        "ray.io/v1 RayJob": {"rayClusterSpec": ray, "submitterPodTemplate": template},
        "ray.io/v1 RayService": {"rayClusterConfig": ray},
        "jobset.x-k8s.io/v1alpha2 JobSet": job_set,
    }
    status = {"phase": "Pending", "conditions": [{"type": "Complete", "status": "False"}]}
    more = [
        {"apiVersion": version, "kind": kind, "metadata": {"name": "a"}, "spec": spec, "status": status}
        for (version, kind), spec in ((name.split(), spec) for name, spec in specs.items())
    ]
    known = {kind.kind for name, kind in ALL_KINDS.items() if name in WORKLOADS}
    return trees(*more, *(obj for obj in objects().values() if obj["kind"] in known))


def control(given: Any) -> None:
    """Do what the API server and the controllers do."""
    _changes(given)


def read_manifests(text: str) -> None:
    """Read a file of manifests and apply what is in it."""
    read = parse_manifests(text, "f.yaml")
    for problem in read.problems:
        msgspec.msgpack.encode(problem)
    for manifest in read.manifests:
        _changes(manifest.object)
        for field in ("", "metadata.name", "spec.containers[0].image", "status.capacity[nvidia.com/gpu]"):
            assert ", line " in manifest.origin.locate(field)
