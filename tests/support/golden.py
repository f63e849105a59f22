"""Replays recorded cases of Volcano's device code against the allocator.

A case is a node, the pods on it, and steps that place or release pods, with Volcano's answer to each. Where we differ
from Volcano on purpose, :func:`deviation` says why by a condition on the case.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from deviceshare.allocator import Allocator, Placement
from deviceshare.claims import Claim
from deviceshare.conf.model import SchedulerConf
from deviceshare.conf.scheduler import parse_conf
from deviceshare.facts import PodFact
from deviceshare.families import BY_NAME
from deviceshare.objects.node import decode_node
from deviceshare.objects.pod import decode_pod

Case = Mapping[str, Any]

PODGROUP_POLICY = "volcano.sh/vgpu-podgroup-policy"
IDS, INDEX = "volcano.sh/vgpu-ids-new", "volcano.sh/gpu-index"
USE, NOUSE = "nvidia.com/use-gputype", "nvidia.com/nouse-gputype"


def cases(path: Path) -> Iterator[Case]:
    """Yield the cases of a file of JSON lines."""
    for line in path.read_text().splitlines():
        yield json.loads(line)


def differences(case: Case) -> list[str]:
    """Replay a case and return where our answers differ from the recorded ones, [] where they agree."""
    return list(_Replay(case).run())


def deviation(case: Case) -> str:
    """Return why we answer otherwise than Volcano on purpose, '' where we do not."""
    if case["family"] == "gpushare-number":
        return ""
    if case["mode"] == "session" and case["args"].get("deviceshare.NodeLockEnable"):
        return "a node's lock delays a hand-over, not a decision"
    if case["family"] == "gpushare-memory":
        return ""
    pods = [step["pod"] for step in case["steps"] if step["op"] == "place"]
    cards = [
        card.split(",")
        for card in case["node"]["annotations"].get("volcano.sh/node-vgpu-register", "").split(":")
        if card
    ]
    models = [card[3] for card in cards]
    if any(card[4] == "false" for card in cards):
        return "unhealthy cards are never given"
    if "volcano.sh/vgpu-cores" not in case["node"]["allocatable"]:
        return "a node without vgpu-cores is a vGPU node"
    for pod in pods:
        annotations = pod.get("annotations", {})
        if USE in annotations and NOUSE in annotations:
            return "both type lists count"
        for wanted in ",".join(annotations.get(key, "") for key in (USE, NOUSE) if key in annotations).split(","):
            if not wanted and (USE in annotations or NOUSE in annotations):
                return "an empty item of a type list means nothing"
            if _means_a_longer_word(wanted, models):
                return "a model name is matched by whole words"
    if any(_twice_on_a_card(pod) for pod in case["pods"]):
        return "each device of a pod is charged when usage is rebuilt"
    return ""


def _means_a_longer_word(wanted: str, models: list[str]) -> bool:
    words = [set(model.upper().replace("-", " ").split()) for model in models]
    whole = any(wanted.upper() in each for each in words)
    return whole and any(
        wanted.upper() in model.upper() and wanted.upper() not in each
        for model, each in zip(models, words, strict=True)
    )


def _twice_on_a_card(pod: Mapping[str, Any]) -> bool:
    devices = pod.get("annotations", {}).get(IDS, "").replace(";", ":").split(":")
    ids = [device.split(",")[0] for device in devices if device]
    return len(ids) > len(set(ids))


class _Replay:
    """One case on one allocator: a new one for each placement, or a long-lived one, as the case's mode says."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.is_vgpu = case["family"] == "vgpu-hamicore"
        self.conf = _conf(case)
        self.node = decode_node(
            json.dumps(
                {"metadata": {**case["node"], "allocatable": None, "capacity": None}, "status": case["node"]}
            ).encode()
        )
        self.pods = {f"{pod['namespace']}/{pod['name']}": pod for pod in case["pods"]}
        self.allocator = self.rebuilt()

    def rebuilt(self) -> Allocator:
        """Return an allocator that knows what the annotations of the pods say, and nothing else."""
        allocator = Allocator(self.conf)
        allocator.set_node(self.node)
        for pod in self.pods.values():
            _hold(allocator, _pod(pod, self.node.name))
        return allocator

    def run(self) -> Iterator[str]:
        for number, step in enumerate(self.case["steps"]):
            if self.case["mode"] == "rebuild":
                self.allocator = self.rebuilt()
            if step["op"] == "release":
                released = self.pods.pop(step["pod_ref"], None)
                if released is None:
                    yield f"step {number}: {step['pod_ref']} was never placed"
                    return
                self.allocator.release(self.node.name, released["uid"])
            else:
                yield from (f"step {number}: {difference}" for difference in self.place(step))
            if self.case["mode"] == "rebuild":
                self.allocator = self.rebuilt()
            if (taken := self.taken()) != (recorded := self.recorded(step)):
                yield f"step {number}: used {taken}, recorded {recorded}"

    def place(self, step: Mapping[str, Any]) -> Iterator[str]:
        pod = _pod(step["pod"])
        placement = self.allocator.place(pod.ask) if not pod.problems else None
        if not step["has_request"]:
            # Nothing that the device code is asked about.
            return
        recorded = step["fits"]
        if (placement is not None) != recorded:
            yield f"fits {placement is not None}, recorded {recorded}"
        if placement is None:
            return
        written = self.written(pod, placement)
        value = next(iter(written.values()))
        if recorded and value != step["value"]:
            yield f"wrote {value!r}, recorded {step['value']!r}"
        if recorded and self.is_vgpu and self.conf.policy == "binpack" and placement.score != step["score"]:
            yield f"score {placement.score}, recorded {step['score']}"
        annotated = {**step["pod"], "annotations": {**step["pod"].get("annotations", {}), **written}}
        self.pods[f"{pod.namespace}/{pod.name}"] = annotated
        if self.case["mode"] == "session":
            self.allocator.hold(placement.node, pod.uid, placement.grants, placement.resources)
        else:
            _hold(self.allocator, _pod(annotated, self.node.name))

    def written(self, pod: PodFact, placement: Placement) -> dict[str, str]:
        """Return the annotation that names the devices, without the empty slots that Volcano leaves out."""
        claim = Claim(id="1", uid=pod.uid, namespace=pod.namespace, name=pod.name, grants=placement.grants)
        family = BY_NAME[placement.grants[0].family]
        annotations = family.annotations(claim, placement.node, [each.name for each in pod.ask.containers], 1.0)
        if self.is_vgpu:
            return {IDS: ";".join(slot for slot in annotations[IDS].split(";") if slot)}
        return {INDEX: annotations[INDEX]}

    def taken(self) -> list[Any]:
        """Return what is taken of each card, in the form of the records."""
        used = self.allocator.used_cards(self.node.name)
        if self.is_vgpu:
            return [[slots, memory, cores] for memory, cores, slots in used]
        if self.case["family"] == "gpushare-memory":
            return [[card.index, taken[0]] for card, taken in zip(self.node.cards, used, strict=True) if card.healthy]
        return [[card.index, taken[2] > 0] for card, taken in zip(self.node.cards, used, strict=True) if card.healthy]

    def recorded(self, step: Mapping[str, Any]) -> list[Any]:
        state = step["state"] or []
        if self.is_vgpu:
            return list(state)
        if self.case["family"] == "gpushare-memory":
            return [[index, memory] for index, memory, _ in state]
        return [[index, pods > 0] for index, _, pods in state]


def _hold(allocator: Allocator, pod: PodFact) -> None:
    if not pod.ended:
        allocator.hold(pod.node, pod.uid, pod.held, allocator.amounts(pod.ask))


def _pod(pod: Mapping[str, Any], node: str = "") -> PodFact:
    metadata = {key: pod.get(key) for key in ("namespace", "name", "uid", "annotations", "labels")}
    # Not evaluated yet; the recorded answers hardly ever depend on it.
    metadata["annotations"] = {
        key: value for key, value in pod.get("annotations", {}).items() if key != PODGROUP_POLICY
    }
    spec = {
        "nodeName": node,
        "containers": [_container(each) for each in pod["containers"]],
        "initContainers": [_container(each) for each in pod.get("init_containers", ())],
    }
    return decode_pod(
        json.dumps({"metadata": metadata, "spec": spec, "status": {"phase": pod.get("phase", "Pending")}}).encode()
    )


def _container(container: Mapping[str, Any]) -> dict[str, Any]:
    return {"name": container["name"], "resources": {"limits": container.get("limits", {})}}


def _conf(case: Case) -> SchedulerConf:
    arguments = dict(case["args"])
    if not case["family"].startswith("vgpu"):
        # Volcano's gpu-share knows no policy, ours does.
        arguments.pop("deviceshare.SchedulePolicy", None)
    plugins = [{"name": "deviceshare", "arguments": arguments}]
    return parse_conf(json.dumps({"tiers": [{"plugins": plugins}]}), "recorded case")
