"""The whole chain: nearly valid objects are decoded, held, placed, explained, and written on the pods."""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec
from deviceshare.allocation import Allocator
from deviceshare.conf import SchedulerConf, default_conf, matching, parse_conf, parse_devices
from deviceshare.families import explain_claim
from deviceshare.model import DEVICES_DIFFER, Claim, ConfigError, FormatError, PodFact
from deviceshare.objects import decode_node, decode_pod
from deviceshare.queueing import Group, decide
from deviceshare.scheduler import explaining
from fuzz import corpus
from fuzz.mutations import texts, trees
from hypothesis import strategies as st
from support.example_cluster import EXAMPLES, NOW, bound_with


class Scene(NamedTuple):
    """Configurations and objects, all of them as they come; ``lists`` are the DeviceLists of ConfigMaps by node."""

    conf: str
    devices: str
    lists: Mapping[str, Mapping[str, str]]
    nodes: Sequence[Any]
    pods: Sequence[Any]


KINDS = ("volcano.sh/gpu-", "volcano.sh/vgpu-", "nvidia.com/gpu", "huawei.com/Ascend", "huawei.com/npu-core")
"""How the resources of nodes and pods that go together begin."""


def scenes() -> st.SearchStrategy[Scene]:
    """Return scenes of a few nodes and pods that go together; half of what they hold is as it should be."""
    return st.one_of([_scenes(kind) for kind in KINDS])


def device_lists() -> st.SearchStrategy[dict[str, str]]:
    """Return what ConfigMaps may say of the chips of a node."""
    return trees(corpus.DEVICE_LIST["DeviceList"]).filter(
        lambda tree: isinstance(tree, dict) and all(isinstance(value, str) for value in tree.values())
    )


def _scenes(kind: str) -> st.SearchStrategy[Scene]:
    conf = (EXAMPLES / "volcano-scheduler.conf").read_text()
    devices = (EXAMPLES / "configmaps" / "vgpu-and-vnpu-device-config.yaml").read_text()
    nodes = [node for node in corpus.nodes() if f'"{kind}' in json.dumps(node["status"])]
    pods = [pod for pod in corpus.pods() if f'"{kind}' in json.dumps(pod["spec"])]
    return st.builds(
        Scene,
        st.sampled_from((conf, conf.replace("binpack", "spread"))) | texts(conf),
        st.just(devices) | texts(devices),
        st.fixed_dictionaries({node["metadata"]["name"]: device_lists() for node in nodes if kind == KINDS[-1]}),
        st.lists(st.sampled_from(nodes) | trees(*nodes), min_size=1, max_size=4),
        st.lists(st.sampled_from(pods) | trees(*pods), min_size=1, max_size=6),
    )


def live_through(scene: Scene) -> None:
    """Process a scene as the services would; raise where a result is wrong whatever the input was."""
    conf = _conf(scene)
    allocator, again = Allocator(conf), Allocator(conf)
    names = set()
    for tree in scene.nodes:
        try:
            node = decode_node(json.dumps(tree).encode(), scene.lists.get)
        except FormatError:
            continue
        names.add(node.name)
        allocator.set_node(node)
        again.set_node(node)
    uids, forged = set(), False
    for tree in scene.pods:
        try:
            pod = decode_pod(json.dumps(tree).encode())
        except FormatError:
            continue
        if pod.ended:
            continue
        rules = matching(conf.exclusive_rules, pod.labels)
        pod = msgspec.structs.replace(pod, ask=msgspec.structs.replace(pod.ask, exclusive=rules))
        uids.add(pod.uid)
        if pod.node:
            forged = True
            for each in (allocator, again):
                each.hold(pod.node, pod.uid, pod.held, each.amounts(pod.ask), pod.tenant)
            continue
        if pod.problems:
            continue
        before = _bound(tree, "n", {})
        if not before.problems and not before.held:
            _decide(allocator, again, pod, tree)
    for name in names:
        assert allocator.used_cards(name) == again.used_cards(name), name
        if not forged:
            _within(allocator, name)
    # Another configuration may count cards otherwise; what is given back is given back under either.
    allocator.set_configuration(default_conf())
    for name in names:
        for uid in uids:
            allocator.release(name, uid)
        assert all(used == (0, 0, 0) for used in allocator.used_cards(name)), name


def _conf(scene: Scene) -> SchedulerConf:
    conf = default_conf()
    with suppress(ConfigError):
        conf = parse_conf(scene.conf, "File volcano-scheduler.conf")
    try:
        return msgspec.structs.replace(conf, devices=parse_devices(scene.devices, "File device-config.yaml"))
    except ConfigError:
        return conf


def _decide(allocator: Allocator, again: Allocator, pod: PodFact, tree: Any) -> None:
    """Place a pod if it can be; what is read from the annotations then must be what was decided."""
    decision = decide(allocator, Group(key=pod.group, pods=(pod,), minimum=1))
    for waiting, why in decision.waiting:
        assert explaining.waiting(waiting, why, decision, NOW, "fuzz").message
    for placed, placement in decision.placed:
        choice = explaining.choice(allocator, placed, placement, decision, placed.queue)
        claim = Claim(
            id="c", uid=placed.uid, namespace=placed.namespace, name=placed.name, grants=placement.grants, choice=choice
        )
        node = allocator.node(placement.node)
        msgspec.msgpack.encode(explain_claim(claim, placement.node, node.cards))
        found = _bound(tree, placement.node, bound_with(placed, placement))
        # An input may say that kubelet has admitted the pod, which no device plugin has served.
        unexpected = [problem for problem in found.problems if problem.field != DEVICES_DIFFER]
        assert not unexpected, unexpected
        again.hold(placement.node, found.uid, found.held, again.amounts(found.ask), found.tenant)


def _bound(tree: Any, node: str, annotations: Mapping[str, str]) -> PodFact:
    """Return the pod as it is seen when it has been bound."""
    metadata, spec = tree["metadata"], tree.get("spec") or {}
    metadata = {**metadata, "annotations": {**(metadata.get("annotations") or {}), **annotations}}
    return decode_pod(json.dumps({**tree, "metadata": metadata, "spec": {**spec, "nodeName": node}}).encode())


def _within(allocator: Allocator, name: str) -> None:
    """No card has more taken than it has."""
    node = allocator.node(name)
    assert node is not None
    for card, (memory, cores, slots) in zip(node.cards, allocator.used_cards(name), strict=True):
        assert memory <= card.memory, (card, memory)
        assert cores <= card.cores, (card, cores)
        assert slots <= card.slots, (card, slots)
