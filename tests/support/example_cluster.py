"""A cluster of example nodes under an example's configuration, and the placements of example workloads in it.

The steps are those of the services, without the bus: admission by the API server, the pods of the Job controller,
decoding by inventory, the decision and explanation of placement, the annotations of the binder.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from deviceshare.allocation import Allocator, Placement
from deviceshare.conf import SchedulerConf, parse_conf, parse_devices
from deviceshare.families import BY_NAME, explain_claim
from deviceshare.families.mindcluster.wire import describes_devices
from deviceshare.model import Claim, NodeFact, PodFact, Problem
from deviceshare.objects import decode_device_info, decode_node, decode_pod
from deviceshare.queueing import Decision, Group, decide
from deviceshare.scheduler import explaining
from deviceshare_cluster.interface import Object
from deviceshare_localcluster import read_manifests
from deviceshare_localcluster.admission import Priorities, admit
from deviceshare_localcluster.jobs import pod_maker, pod_names
from msgspec.structs import replace

EXAMPLES = Path(__file__).parents[2] / "examples"
NOW = 1770105600.0


@dataclass
class PodResult:
    """The decision about a pod: its ``node``, or '' and in ``message`` the reason why it is pending."""

    pod: PodFact
    node: str = ""
    placement: Placement | None = None
    message: str = ""
    annotations: dict[str, str] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    caveats: tuple[str, ...] = ()

    @property
    def cards(self) -> list[int]:
        """The indexes of its cards on the node."""
        return [device.index for grant in self._grants for device in grant.devices]

    @property
    def memory(self) -> list[int]:
        """The MiB charged on each card."""
        return [device.memory for grant in self._grants for device in grant.devices]

    @property
    def details(self) -> list[str]:
        """The detail by which the families name each device: a MIG instance, a template."""
        return [device.detail for grant in self._grants for device in grant.devices]

    @property
    def families(self) -> set[str]:
        """The families of the granted cards."""
        return {grant.family for grant in self._grants}

    @property
    def _grants(self) -> tuple[Any, ...]:
        return self.placement.grants if self.placement is not None else ()


class ExampleCluster:
    """Example nodes, by name or as objects, or all, under a configuration: a file under ``examples``, or one itself."""

    def __init__(self, configuration: str | SchedulerConf, *nodes: str | Object) -> None:
        self.conf = example_conf(configuration) if isinstance(configuration, str) else configuration
        self.allocator = Allocator(self.conf)
        self.problems: list[Problem] = []
        self.nodes: dict[str, NodeFact] = {}
        for obj in [named("Node", one) if isinstance(one, str) else one for one in nodes] or kind("Node"):
            fact = decode_node(json.dumps(admitted(obj)).encode(), device_lists().get)
            self.problems += fact.problems
            self.nodes[fact.name] = fact
            self.allocator.set_node(fact)

    def run(self, *workloads: str | Object) -> dict[str, PodResult]:
        """Decide workloads in turn: files under ``examples``, or objects. Returns the results by the pods' names."""
        results: dict[str, PodResult] = {}
        for workload in workloads:
            pods, minimum = pods_of(load(workload) if isinstance(workload, str) else workload)
            waiting = [pod for pod in pods if not pod.node]
            for pod in pods:
                if pod.node:
                    self.allocator.hold(pod.node, pod.uid, pod.held, self.allocator.amounts(pod.ask), pod.tenant)
            wrong = {pod.name: pod.problems for pod in waiting if pod.problems}
            results |= {
                pod.name: PodResult(pod, message="; ".join(map(str, pod.problems))) for pod in waiting if pod.problems
            }
            able = tuple(pod for pod in waiting if pod.name not in wrong)
            if able:
                decision = decide(self.allocator, Group(key=able[0].group, pods=able, minimum=minimum))
                results |= {result.pod.name: result for result in self._results(decision)}
        return results

    def place(self, workload: str | Object) -> PodResult:
        """Decide a workload of one pod."""
        (result,) = self.run(workload).values()
        return result

    def _results(self, decision: Decision) -> Iterable[PodResult]:
        for pod, placement in decision.placed:
            choice = explaining.choice(self.allocator, pod, placement, decision, pod.queue)
            claim = Claim(
                id="c", uid=pod.uid, namespace=pod.namespace, name=pod.name, grants=placement.grants, choice=choice
            )
            node = self.allocator.node(placement.node)
            explanation = explain_claim(claim, placement.node, node.cards)
            environment = {key: value for each in explanation.environment.values() for key, value in each.items()}
            yield PodResult(
                pod, placement.node, placement, "", bound_with(pod, placement), environment, explanation.caveats
            )
        for pod, why in decision.waiting:
            yield PodResult(pod, message=explaining.waiting(pod, why, decision, NOW, "test").message)


def bound_with(pod: PodFact, placement: Placement) -> dict[str, str]:
    """Return the annotations that the binder writes."""
    claim = Claim(id="c", uid=pod.uid, namespace=pod.namespace, name=pod.name, grants=placement.grants)
    names, first = ([each.name for each in some] for some in (pod.ask.containers, pod.ask.init_containers))
    annotations: dict[str, str] = {}
    for family in dict.fromkeys(grant.family for grant in placement.grants):
        annotations |= BY_NAME[family].annotations(claim, placement.node, names, NOW, first)
    return annotations


def example_conf(path: str) -> SchedulerConf:
    """Return a configuration under ``examples``, with the ConfigMap of devices that it names, if it exists."""
    conf = parse_conf((EXAMPLES / path).read_text(), f"File {path}")
    maps = {(one["metadata"]["namespace"], one["metadata"]["name"]): one["data"] for one in kind("ConfigMap")}
    data = maps.get(conf.geometries_config_map)
    if data is None:
        return conf
    return replace(conf, devices=parse_devices(data["device-config.yaml"], "/".join(conf.geometries_config_map)))


def device_lists() -> dict[str, dict[str, str]]:
    """Return the chips of each node, from the ConfigMaps of MindCluster."""
    found: dict[str, dict[str, str]] = {}
    for one in kind("ConfigMap"):
        if describes_devices(one["metadata"]["namespace"], one["metadata"]["name"]):
            found |= decode_device_info(json.dumps(one).encode()).devices
    return found


@cache
def objects() -> Mapping[str, Object]:
    """Return every object under ``examples``, by its file."""
    return {one.origin.name.removeprefix("File "): one.object for one in read_manifests(EXAMPLES).manifests}


def load(path: str) -> Object:
    """Return the object of a file under ``examples``."""
    return objects()[path]


def kind(name: str) -> list[Object]:
    """Return all objects of a kind."""
    return [obj for obj in objects().values() if obj["kind"] == name]


def named(kind_name: str, name: str) -> Object:
    """Return an object by kind and name."""
    (found,) = (obj for obj in kind(kind_name) if obj["metadata"]["name"] == name)
    return found


def changed(workload: str, **metadata: Mapping[str, str] | str) -> Object:
    """Return an example with other ``name``, or with more or other ``labels`` and ``annotations``."""
    obj = json.loads(json.dumps(load(workload)))
    for part, value in metadata.items():
        given = obj["metadata"].get(part)
        obj["metadata"][part] = {**(given or {}), **value} if isinstance(value, Mapping) else value
    return obj  # type: ignore[no-any-return]


def admitted(obj: Object) -> Object:
    """Return an object as the API server stores it."""
    uid = f"uid-of-{obj['metadata']['name']}"
    return admit(obj, uid=uid, now="2026-02-03T08:00:00Z", priorities=Priorities()).object


def pods_of(obj: Object) -> tuple[list[PodFact], int]:
    """Return the pods of a Pod or a Job, and how many must be placed together."""
    stored = admitted(obj)
    if stored["kind"] == "Pod":
        return [decode_pod(json.dumps(stored).encode())], 1
    makers = {task["name"]: pod_maker(stored, task) for task in stored["spec"]["tasks"]}
    made = [makers[task["name"]](index) for _, task, index in pod_names(stored)]
    return [decode_pod(json.dumps(admitted(pod)).encode()) for pod in made], stored["spec"]["minAvailable"]
