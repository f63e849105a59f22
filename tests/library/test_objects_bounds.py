"""Bounds of what a fact keeps of an object: larger parts are problems that name field and limit."""

import gzip
import json
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from deviceshare.model import Problem, matches_labels
from deviceshare.model.problems import MAX_PROBLEMS
from deviceshare.objects import bounds, decode_namespace, decode_pod, decode_podgroup, decode_volume_claim, metadata
from deviceshare.objects.held import MAX_DEVICES
from support.hostile_pods import ATTACK

ROOT = Path(__file__).parents[2]
Object = dict[str, Any]
CASES = [pytest.param(make, id=make.__name__) for make in ATTACK]


def raw(obj: Object) -> bytes:
    obj["metadata"] = {"namespace": "ml", "name": "a", "uid": "u1"} | obj.get("metadata", {})
    return json.dumps(obj, separators=(",", ":")).encode()


def pod(metadata: Object | None = None, **spec: Any) -> bytes:
    return raw({"metadata": metadata or {}, "spec": {"containers": [{"name": "main"}], **spec}})


def terms(count: int, **expression: Any) -> list[Object]:
    each = {"key": "zone", "operator": "Exists"} | expression
    return [{"matchExpressions": [each]} for _ in range(count)]


def node_affinity(required: list[Object]) -> Object:
    selector = {"nodeSelectorTerms": required}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": selector}}


def preferred(count: int) -> Object:
    each = [{"weight": 1, "preference": term} for term in terms(count)]
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": each}}


def pod_affinity(near: int, apart: int) -> Object:
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "a"}}}
    weighted = {"weight": 1, "podAffinityTerm": term}
    return {
        "podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [weighted] * near},
        "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term] * apart},
    }


def spread(count: int) -> list[Object]:
    return [
        {"maxSkew": 1, "topologyKey": f"k{number}", "whenUnsatisfiable": "ScheduleAnyway"} for number in range(count)
    ]


def containers(count: int, **more: Any) -> list[Object]:
    return [{"name": f"c{number}", **more} for number in range(count)]


def listed(count: int) -> Object:
    return {"annotations": {"nvidia.com/use-gpuuuid": ",".join(f"GPU-{number:06}" for number in range(count))}}


def host_ports(count: int) -> list[Object]:
    ports = [{"containerPort": 1, "hostPort": 1 + number} for number in range(count)]
    return [{"name": "main", "ports": ports}]


def resources(count: int) -> list[Object]:
    limits = {f"example.com/r{number:05}": "1" for number in range(count)}
    return [{"name": "main", "resources": {"limits": limits}}]


BOUNDS: list[tuple[str, int, Callable[[int], bytes]]] = [
    ("spec.containers", bounds.MAX_CONTAINERS, lambda n: pod(containers=containers(n))),
    ("spec.initContainers", bounds.MAX_CONTAINERS, lambda n: pod(initContainers=containers(n))),
    ("spec.containers[].resources", bounds.MAX_RESOURCES, lambda n: pod(containers=resources(n))),
    ("spec.containers[].ports", bounds.MAX_HOST_PORTS, lambda n: pod(containers=host_ports(n))),
    ("spec.nodeSelector", bounds.MAX_SELECTED, lambda n: pod(nodeSelector={f"k{i}": "v" for i in range(n)})),
    ("spec.tolerations", bounds.MAX_TOLERATIONS, lambda n: pod(tolerations=[{"key": f"k{i}"} for i in range(n)])),
    ("spec.schedulingGates", bounds.MAX_GATES, lambda n: pod(schedulingGates=[{"name": f"g{i}"} for i in range(n)])),
    ("spec.volumes", bounds.MAX_VOLUMES, lambda n: pod(volumes=[{"name": f"v{i}"} for i in range(n)])),
    ("spec.topologySpreadConstraints", bounds.MAX_SPREADS, lambda n: pod(topologySpreadConstraints=spread(n))),
    (
        "spec.affinity.nodeAffinity.required.nodeSelectorTerms",
        bounds.MAX_NODE_TERMS,
        lambda n: pod(affinity=node_affinity(terms(n))),
    ),
    ("spec.affinity.nodeAffinity.preferred", bounds.MAX_NODE_TERMS, lambda n: pod(affinity=preferred(n))),
    (
        "spec.affinity",
        bounds.MAX_TEXTS,
        lambda n: pod(affinity=node_affinity(terms(1, operator="In", values=[f"v{i}" for i in range(n - 2)]))),
    ),
    (
        "spec.affinity.podAffinity and podAntiAffinity",
        bounds.MAX_POD_TERMS,
        lambda n: pod(affinity=pod_affinity(n // 2, n - n // 2)),
    ),
    ("metadata.labels", metadata.MAX_LABELS, lambda n: pod({"labels": {f"l{i}": "v" for i in range(n)}})),
    ("metadata.annotations[nvidia.com/use-gpuuuid]", metadata.MAX_ENTRIES, lambda n: pod(listed(n))),
]


@pytest.mark.parametrize(("field", "most", "make"), BOUNDS, ids=[field for field, *_ in BOUNDS])
def test_a_field_above_its_bound_is_a_problem_that_names_it(
    field: str, most: int, make: Callable[[int], bytes]
) -> None:
    assert decode_pod(make(most)).problems == ()
    (problem,) = decode_pod(make(most + 1)).problems
    assert (problem.subject, problem.field) == ("Pod ml/a", field)
    assert str(most) in problem.expected
    assert problem.expected.startswith("at most")


@pytest.mark.parametrize("make", CASES)
def test_pods_of_the_attack_are_refused_with_a_field_and_a_limit(make: Callable[[int], Object]) -> None:
    problems = decode_pod(raw(make(1))).problems
    assert problems, make
    assert all("at most" in problem.expected for problem in problems)
    assert sum(map(len, map(str, problems))) < 4096


def memory_of(data: bytes) -> int:
    """Return the bytes of the fact of a pod, decoded from its message as by the services."""
    decoder = msgspec.msgpack.Decoder(type(decode_pod(data)))
    message = msgspec.msgpack.encode(decode_pod(data))
    tracemalloc.start()
    fact = decoder.decode(message)
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert fact.uid
    return size


@pytest.mark.parametrize("make", CASES)
def test_a_fact_takes_at_most_four_times_the_json_of_its_object(make: Callable[[int], Object]) -> None:
    data = raw(make(1))
    assert memory_of(data) <= 4 * len(data) + 4096


def test_a_fact_within_the_bounds_takes_at_most_four_times_its_json() -> None:
    hosts = [f"gpu-node-{number:05}.cluster.example.com" for number in range(bounds.MAX_TEXTS - 2)]
    data = pod(affinity=node_affinity(terms(1, operator="In", values=hosts)))
    assert decode_pod(data).problems == ()
    assert memory_of(data) <= 4 * len(data)


def test_a_bound_pod_with_too_many_containers_counts_all_that_they_use() -> None:
    asked = {"resources": {"limits": {"volcano.sh/vgpu-number": "1", "cpu": "1"}}}
    fact = decode_pod(pod(nodeName="n1", containers=containers(bounds.MAX_CONTAINERS + 10, **asked)))
    total = sum(container.get("volcano.sh/vgpu-number") or 0 for container in fact.ask.containers)
    assert (len(fact.ask.containers), total) == (bounds.MAX_CONTAINERS, bounds.MAX_CONTAINERS + 10)


def test_of_too_many_resources_those_of_devices_stay() -> None:
    (container,) = resources(10 * bounds.MAX_RESOURCES)
    container["resources"]["limits"] |= {"volcano.sh/vgpu-number": "2", "memory": "1Gi"}
    (kept,) = decode_pod(pod(nodeName="n1", containers=[container])).ask.containers
    assert (kept.get("volcano.sh/vgpu-number"), kept.get("memory")) == (2, 2**30)
    assert len(kept.resources) == bounds.MAX_RESOURCES


def test_devices_in_annotations_are_bounded() -> None:
    ids = "".join(f"GPU-{number},NVIDIA,1,1:" for number in range(50 * MAX_DEVICES))
    asked = {"resources": {"limits": {"volcano.sh/vgpu-number": "1"}}}
    annotations = {"volcano.sh/vgpu-ids-new": ids}
    fact = decode_pod(pod({"annotations": annotations}, nodeName="n1", containers=containers(1, **asked)))
    assert sum(len(grant.devices) for grant in fact.held) == MAX_DEVICES
    assert f"at most {MAX_DEVICES} devices" in [problem.expected for problem in fact.problems]


@pytest.mark.parametrize(
    ("field", "make"),
    [
        ("spec.schedulerName", lambda text: pod(schedulerName=text)),
        ("spec.containers[0].name", lambda text: pod(containers=[{"name": text}])),
        ("spec.nodeSelector[zone]", lambda text: pod(nodeSelector={"zone": text})),
        ("metadata.labels[app]", lambda text: pod({"labels": {"app": text}})),
        (
            "metadata.annotations[scheduling.volcano.sh/queue-name]",
            lambda text: pod({"annotations": {"scheduling.volcano.sh/queue-name": text}}),
        ),
        (
            "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]"
            ".matchExpressions[0].values[0]",
            lambda text: pod(affinity=node_affinity(terms(1, operator="In", values=[text, "b"]))),
        ),
    ],
)
def test_long_texts_are_problems(field: str, make: Callable[[str], bytes]) -> None:
    fact = decode_pod(make("x" * 100_000))
    assert field in [problem.field for problem in fact.problems]
    assert len(msgspec.msgpack.encode(fact)) < 8192


def test_a_long_annotation_that_nothing_reads_is_no_problem_and_is_not_kept() -> None:
    data = pod({"annotations": {"kubectl.kubernetes.io/last-applied-configuration": "x" * 250_000}})
    fact = decode_pod(data)
    assert fact.problems == ()
    assert len(msgspec.msgpack.encode(fact)) < 1024


def test_problems_are_few_and_short() -> None:
    wrong = [{"key": "k" * 1000, "operator": "x" * 900} for _ in range(bounds.MAX_TOLERATIONS)]
    problems = decode_pod(pod(tolerations=wrong)).problems
    assert len(problems) == MAX_PROBLEMS
    assert problems[-1].value == f"{bounds.MAX_TOLERATIONS - MAX_PROBLEMS + 1} more problems"
    assert max(len(part) for problem in problems for part in msgspec.structs.astuple(problem)) <= 512


@pytest.mark.parametrize(
    ("decode", "spec", "field"),
    [
        (decode_podgroup, {"minTaskMember": {f"t{i}": 1 for i in range(10_000)}}, "spec.minTaskMember"),
        (decode_podgroup, {"minResources": {f"a.b/r{i}": 1 for i in range(10_000)}}, "spec.minResources"),
        (decode_podgroup, {"queue": "q" * 100_000}, "spec.queue"),
        (decode_volume_claim, {"accessModes": [f"m{i}" for i in range(10_000)]}, "spec.accessModes"),
        (
            decode_volume_claim,
            {"selector": {"matchLabels": {f"l{i}": "v" for i in range(10_000)}}},
            "spec.selector",
        ),
        (decode_volume_claim, {"storageClassName": "s" * 100_000}, "spec.storageClassName"),
    ],
)
def test_other_objects_of_tenants_have_bounds(decode: Callable[[bytes], Any], spec: Object, field: str) -> None:
    fact = decode(raw({"spec": spec}))
    problems: tuple[Problem, ...] = fact.problems
    assert [(problem.field, problem.expected.startswith("at most")) for problem in problems] == [(field, True)]
    assert len(msgspec.msgpack.encode(fact)) < 64 * 1024


def test_a_claim_whose_selector_is_too_large_matches_no_volume() -> None:
    labels = {f"l{number}": "v" for number in range(10_000)}
    selector = decode_volume_claim(raw({"spec": {"selector": {"matchLabels": labels}}})).selector
    assert selector is not None
    assert not matches_labels(selector, labels)


def test_labels_of_a_namespace_have_a_bound() -> None:
    fact = decode_namespace(raw({"metadata": {"labels": {f"l{number}": "v" for number in range(1000)}}}))
    assert len(fact.labels) == metadata.MAX_LABELS
    assert [problem.field for problem in fact.problems] == ["metadata.labels"]


def pods_in(obj: Any) -> Iterator[Object]:
    """Yield what looks like the spec of a pod anywhere in a document, with its metadata."""
    if isinstance(obj, dict):
        if isinstance(spec := obj.get("spec"), dict) and isinstance(spec.get("containers"), list):
            given = obj.get("metadata")
            names = {"labels", "annotations"} & (given.keys() if isinstance(given, dict) else set())
            yield {"metadata": {name: given[name] for name in names if given[name]}, "spec": spec}
        for value in obj.values():
            yield from pods_in(value)
    elif isinstance(obj, list):
        for value in obj:
            yield from pods_in(value)


def documents() -> Iterator[Any]:
    for path in (ROOT / "examples").rglob("*.yaml"):
        yield from yaml.safe_load_all(path.read_text())
    for path in (ROOT / "tests" / "data").rglob("*.json*"):
        text = gzip.decompress(path.read_bytes()).decode() if path.suffix == ".gz" else path.read_text()
        for line in text.splitlines() if ".jsonl" in path.name else [text]:
            yield json.loads(line)


def test_no_recorded_pod_and_no_example_exceeds_a_bound() -> None:
    found = 0
    for document in documents():
        for each in pods_in(document):
            found += 1
            exceeded = [problem for problem in decode_pod(raw(each)).problems if "at most" in problem.expected]
            assert exceeded == [], each
    assert found > 1000
