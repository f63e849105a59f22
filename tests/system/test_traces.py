"""The traces of a whole system, received by a receiver that is built on the official protobufs.

The number of pods can be raised by the environment.
"""

import asyncio
import json
import os
import signal
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

from deviceshare.model import PHASES, trace_id
from deviceshare_bus.runtime.tracing import BATCH, ROOT, Tracing
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from support.manifests import node, pod, pod_group
from support.otlp import Receiver, Span
from support.running import RunningSystem, http_get

PODS = int(os.environ.get("DEVICESHARE_TRACE_PODS", "300"))
GANG = 4
GANGS = PODS // 30


async def load(system: RunningSystem) -> None:
    await system.cluster.load([node(number) for number in range(PODS // 15)])
    await system.cluster.load([pod_group(f"gang-{number}", GANG) for number in range(GANGS)])
    in_gangs = range(GANG * GANGS)
    await system.cluster.load(
        [pod(number, group=f"gang-{number // GANG}" if number in in_gangs else None) for number in range(PODS)]
    )


def check(receiver: Receiver, pods: dict[str, Any]) -> dict[str, list[Span]]:
    """Check that each trace is complete and of one of the pods; return the traces by uid."""
    traces = receiver.of_pods()
    rounds = {(span.trace, span.id): span for span in traces.pop("")}
    assert {span.name for span in rounds.values()} == {BATCH}
    assert all(span.parent == "" for span in rounds.values())
    assert traces.keys() <= pods.keys()
    for uid, spans in traces.items():
        assert Counter(span.name for span in spans) == Counter((ROOT, *PHASES)), spans
        (root,) = [span for span in spans if span.name == ROOT]
        phases = [next(span for span in spans if span.name == name) for name in PHASES]
        assert (root.parent, root.trace, root.service) == ("", trace_id(uid), "deviceshare-binder")
        assert {(span.trace, span.parent) for span in phases} == {(root.trace, root.id)}, "orphans"
        assert {span.service for span in phases[:2]} == {"deviceshare-placement"}
        assert {span.service for span in phases[2:]} == {"deviceshare-binder"}
        assert abs(sum(span.length for span in phases) - root.length) < 1_000_000
        assert all(span.length > 0 for span in (phases[0], phases[1], phases[4]))
        assert all(one.end == other.start for one, other in pairwise(phases))
        assert all(link in rounds for span in phases[1:3] for link in span.links)
        assert phases[1].links
        found = pods[uid]
        assert root.attributes["k8s.pod.name"] == found["metadata"]["name"]
        assert root.attributes["k8s.namespace.name"] == found["metadata"]["namespace"]
        assert root.attributes["k8s.node.name"] == found["spec"]["nodeName"]
        assert root.attributes["deviceshare.queue"] == "default"
        assert root.attributes["deviceshare.result"] == "bound"
    return traces


def read_exemplars(run: dict[str, Any]) -> set[str]:
    """Return the trace ids of the exemplars of the time that pods waited."""
    families = list(parse_openmetrics(http_get(run, "/metrics", "application/openmetrics-text").decode()))
    (waits,) = [family for family in families if family.name == "deviceshare_pod_seen_to_bound_seconds"]
    return {sample.exemplar.labels["trace_id"] for sample in waits.samples if sample.exemplar}


async def logged(log: Path, count: int) -> dict[str, dict[str, Any]]:
    """Return the log lines of so many bound pods, by uid; a line is written with the outcome, which is folded."""

    def read() -> dict[str, dict[str, Any]]:
        lines = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
        return {line["uid"]: line for line in lines if line["message"] == "pod bound"}

    for _ in range(50):
        bound = await asyncio.to_thread(read)
        if len(bound) >= count:
            break
        await asyncio.sleep(0.1)
    return bound


async def test_each_pod_has_one_complete_trace(tmp_path: Path) -> None:
    with Receiver() as receiver:
        async with RunningSystem(
            tmp_path,
            OTEL_EXPORTER_OTLP_ENDPOINT=receiver.http,
            OTEL_EXPORTER_OTLP_PROTOCOL="http/protobuf",
            DEVICESHARE_LOG_LEVEL="debug",
        ) as system:
            await load(system)
            await system.bound(system.cluster, PODS // 5, within=200)
            # A binder that ends exports what it has; its successor exports the pods whose outcomes it writes.
            os.kill(system.process("binder"), signal.SIGTERM)
            await system.bound(system.cluster, PODS, within=200 + PODS / 50)
            pods = {each["metadata"]["uid"]: each for each in await system.cluster.list("Pod")}
            events = await system.cluster.list("Event")
            exemplars = await asyncio.to_thread(read_exemplars, system.run)
            bound = await logged(Path(system.run["directory"]) / "binder.log", len(pods))
        traces = check(receiver, pods)
    assert len(traces) == len(pods) == PODS
    instances = {span.instance for spans in traces.values() for span in spans if span.name == ROOT}
    assert 1 <= len(instances) <= 2
    assert exemplars
    assert exemplars <= {trace_id(uid) for uid in pods}
    of_pods = [each for each in events if each["involvedObject"]["kind"] == "Pod"]
    assert of_pods
    for event in of_pods:
        uid = event["involvedObject"]["uid"]
        assert event["metadata"]["annotations"]["deviceshare.io/trace-id"] == trace_id(uid)
    assert bound.keys() == pods.keys()
    assert all(line["trace_id"] == trace_id(uid) and line["level"] == "debug" for uid, line in bound.items())


async def test_a_tenth_of_the_pods_is_sampled(tmp_path: Path, monkeypatch: Any) -> None:
    variables = {"OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.1"}
    with Receiver() as receiver:
        endpoint = {"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.grpc, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}
        async with RunningSystem(tmp_path, **variables, **endpoint) as system:
            await load(system)
            await system.bound(system.cluster, PODS, within=200 + PODS / 50)
            pods = {each["metadata"]["uid"]: each for each in await system.cluster.list("Pod")}
        traces = check(receiver, pods)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    sampler = Tracing("test", "1", {"OTEL_TRACES_EXPORTER": "console"})
    assert traces.keys() == {uid for uid in pods if sampler.sampled(uid)}
    if PODS >= 2000:
        assert 0.08 <= len(traces) / PODS <= 0.12
    sampler.close()
