"""Every parser of something that users or device plugins write, with nearly valid inputs.

A parser may return, or raise its typed error; anything else is a find.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import msgspec
from deviceshare.conf import parse_conf, parse_devices
from deviceshare.families.dra.best_fit import device_order
from deviceshare.families.dra.cel import evaluator
from deviceshare.families.dra.codec import decode_claim, decode_class, decode_slice
from deviceshare.families.dra.errors import AllocationError
from deviceshare.families.dra.layout import Layout
from deviceshare.families.dra.pools import Features, Place
from deviceshare.families.dra.selectors import Selectors
from deviceshare.families.dra.solver import Solver
from deviceshare.families.hami_vnpu import wire as hami_vnpu_wire
from deviceshare.families.mindcluster import wire as mindcluster_wire
from deviceshare.families.vgpu import wire as vgpu_wire
from deviceshare.families.volcano_gpu import wire as gpu_share_wire
from deviceshare.model import AnyFact, ConfigError, ContainerGrant, Fact, FormatError, InputError, to_amount
from deviceshare.model.quantities import parse_quantity
from deviceshare.objects import (
    decode_disruption_budget,
    decode_namespace,
    decode_node,
    decode_pod,
    decode_podgroup,
    decode_queue,
    decode_storage_class,
    decode_volume,
    decode_volume_claim,
    decode_volume_limits,
)
from deviceshare.policies import card_policy
from deviceshare_cli.errors import CommandError
from deviceshare_lab.conformance.cases import read_file
from deviceshare_lab.conformance.devices.command import taken, used_by
from fuzz import chain, corpus, services
from fuzz.chain import device_lists
from fuzz.mutations import documents, odd_texts, texts
from hypothesis import strategies as st


class Target(NamedTuple):
    """A parser: what it is given, and what it may raise; ``weight`` is how much more time it gets than others."""

    inputs: st.SearchStrategy[Any]
    parse: Callable[[Any], object]
    errors: tuple[type[Exception], ...] = ()
    weight: int = 1


def attempt(target: Target, given: Any) -> None:
    """Parse; raises what is a find. A typed error must be one that can be shown and sent to others."""
    try:
        target.parse(given)
    except target.errors as error:
        said = error
    else:
        return
    if isinstance(said, InputError):
        assert said.problem.subject
        msgspec.msgpack.encode(said.problem)
    str(said).encode()


def _spread(parse: Callable[..., object]) -> Callable[[Any], object]:
    """Return a parser of one tuple from one of several arguments."""
    return lambda given: parse(*given)


def _fact(decode: Callable[[bytes], Fact]) -> Callable[[bytes], object]:
    """Return a decoder whose facts go over the bus and come back the same."""

    def parse(raw: bytes) -> None:
        fact = decode(raw)
        assert msgspec.msgpack.decode(msgspec.msgpack.encode(fact), type=AnyFact) == fact

    return parse


def _gpu_share_cards(capacity: Mapping[str, int], unhealthy: str) -> None:
    for card in gpu_share_wire.read_cards(dict(capacity), "n"):
        assert card.memory >= 0


def _ids(text: str) -> None:
    slots = vgpu_wire.read_ids(text, "ns/p")
    grants = [ContainerGrant("c", at, "hami-core", tuple(devices)) for at, devices in enumerate(slots)]
    if any(slots):
        # What we write we read.
        assert vgpu_wire.read_ids(vgpu_wire.write_ids(grants, len(slots)), "ns/p") == slots


def _mindcluster_devices(namespace: str, name: str, data: Mapping[str, str]) -> None:
    if mindcluster_wire.describes_devices(namespace, name):
        mindcluster_wire.read_devices(namespace, name, {"mx-consumer-volcano": "true"}, data)


def _data(key: str) -> st.SearchStrategy[dict[str, str]]:
    """Return the data of a ConfigMap that lists devices."""
    return st.fixed_dictionaries({key: _DEVICE_INFOS.map(lambda raw: raw.decode(errors="replace"))})


def _configuration(parse: Callable[[str, str], Any]) -> Callable[[str], object]:
    """Return a parser whose result and warnings can be sent to others."""

    def read(text: str) -> None:
        msgspec.msgpack.encode(parse(text, "File f").warnings)

    return read


_SELECTORS = Selectors(evaluator())
_ORDER = device_order(card_policy("binpack"), card_policy("binpack"))
_DEVICE_FEATURES = Features(
    frozenset(
        [
            *("AdminAccess", "ConsumableCapacity", "DeviceBindingAndStatus", "DeviceTaints", "FractionalCapacityRange"),
            *("CompatibilityGroups", "ListTypeAttributes", "PartitionableDevices", "PrioritizedList"),
        ]
    )
)


def _allocate(device_class: bytes, resource_slice: bytes, claim: bytes) -> None:
    """Allocate devices on a node where an equal claim has some already."""
    found, asked = decode_class(device_class), decode_claim(claim)
    slices, used = [decode_slice(resource_slice)], used_by([asked])
    layout = Layout(slices, Place("n", {}), _DEVICE_FEATURES)
    solver = Solver(layout, {found.metadata.name: found}, _SELECTORS, [asked])
    solver.solve(taken(layout, used), 500, _ORDER)


def _recorded_case(line: bytes) -> None:
    with TemporaryDirectory() as directory:
        path = Path(directory) / "cases.jsonl"
        path.write_bytes(line)
        read_file(path)


_AMOUNTS = st.sampled_from((0, 1, 8, 89424, 1024, 1025, 2**53))
_RESOURCES = st.sampled_from(("cpu", "memory", "ephemeral-storage", "hugepages-2Mi", "pods", "nvidia.com/gpu", "", "a"))
_DEVICE_INFOS = documents({"mindx-dl-deviceinfo-n": corpus.DEVICE_LIST}, {"DeviceInfo": corpus.DEVICE_LIST})
_LABELS = st.fixed_dictionaries(
    {"accelerator": texts("huawei-Ascend310P"), "servertype": texts(*corpus.SERVER_TYPES)},
    optional={"node.kubernetes.io/npu.chip.name": odd_texts()},
)
_HAMI_NODE = st.dictionaries(
    st.sampled_from(("hami.io/node-register-Ascend910A", "hami.io/node-register-X"))
    | texts("hami.io/node-register-Ascend310P"),
    texts(*corpus.HAMI_REGISTER),
    max_size=3,
)
_HAMI_POD = st.fixed_dictionaries(
    {
        "hami.io/Ascend910A-devices-allocated": texts(*corpus.HAMI_SLOTS),
        "huawei.com/Ascend910A": texts(*corpus.HAMI_CUTS),
    },
    optional={"huawei.com/vnpu-mode": texts("hami-core")},
)

TARGETS: dict[str, Target] = {
    "quantity": Target(texts(*corpus.QUANTITIES) | st.integers() | st.floats(), parse_quantity, (ValueError,)),
    "amount": Target(
        st.tuples(_RESOURCES, texts(*corpus.QUANTITIES) | st.integers() | st.floats(), st.just("Node n"), odd_texts()),
        _spread(to_amount),
        (FormatError,),
    ),
    "vgpu-register": Target(
        st.tuples(texts(*corpus.REGISTER), st.just("n")), _spread(vgpu_wire.read_register), (FormatError,)
    ),
    "vgpu-ids": Target(texts(*corpus.IDS), _ids, (FormatError,)),
    "gpu-share-cards": Target(
        st.tuples(
            st.fixed_dictionaries({}, optional={gpu_share_wire.MEMORY: _AMOUNTS, gpu_share_wire.NUMBER: _AMOUNTS}),
            texts("0,3", "GPU-xxxx-1234"),
        ),
        _spread(_gpu_share_cards),
        (FormatError,),
    ),
    "gpu-index": Target(
        st.tuples(texts("0,2", "0"), st.just("ns/p")), _spread(gpu_share_wire.read_index), (FormatError,)
    ),
    "hami-registers": Target(
        st.tuples(_HAMI_NODE, st.just("n")), _spread(hami_vnpu_wire.read_registers), (FormatError,)
    ),
    "hami-slots": Target(
        st.tuples(_HAMI_POD, st.just("Ascend910A"), st.just("ns/p")), _spread(hami_vnpu_wire.read_slots), (FormatError,)
    ),
    "mindcluster-chips": Target(
        st.tuples(_LABELS, st.none() | texts(*corpus.BASE_INFO), st.none() | device_lists(), st.just("n")),
        _spread(mindcluster_wire.read_chips),
        (FormatError,),
    ),
    "mindcluster-devices": Target(
        st.tuples(st.just("mindx-dl"), st.just("cluster-info-device-0"), _data("cluster-info-device-0"))
        | st.tuples(st.just("kube-system"), st.just("mindx-dl-deviceinfo-n"), _data("DeviceInfoCfg")),
        _spread(_mindcluster_devices),
        (FormatError,),
    ),
    "mindcluster-given": Target(
        st.tuples(texts(*corpus.GIVEN), st.just("ns/p")), _spread(mindcluster_wire.read_given), (FormatError,)
    ),
    "mindcluster-real": Target(texts(*corpus.REAL), mindcluster_wire.groups_of),
    "volcano-scheduler.conf": Target(
        texts(*corpus.texts_of(".conf"), corpus.EXCLUSIVE_RULES, *corpus.TRICKY_YAML),
        _configuration(parse_conf),
        (ConfigError,),
    ),
    "device-config.yaml": Target(
        texts(corpus.DEVICE_CONFIG, corpus.DEVICE_CONFIG, *corpus.TRICKY_YAML),
        _configuration(parse_devices),
        (ConfigError,),
    ),
    "node": Target(documents(*corpus.nodes()), _fact(decode_node), (FormatError,)),
    "pod": Target(documents(*corpus.pods()), _fact(decode_pod), (FormatError,)),
    "podgroup": Target(documents(corpus.PODGROUP), _fact(decode_podgroup), (FormatError,)),
    "disruption budget": Target(documents(corpus.DISRUPTION_BUDGET), _fact(decode_disruption_budget), (FormatError,)),
    "namespace": Target(documents(corpus.NAMESPACE), _fact(decode_namespace), (FormatError,)),
    "volume claim": Target(documents(corpus.VOLUME_CLAIM), _fact(decode_volume_claim), (FormatError,)),
    "volume": Target(documents(corpus.VOLUME), _fact(decode_volume), (FormatError,)),
    "storage class": Target(documents(corpus.STORAGE_CLASS), _fact(decode_storage_class), (FormatError,)),
    "volume limits": Target(documents(corpus.CSI_NODE), _fact(decode_volume_limits), (FormatError,)),
    "queue": Target(documents(corpus.QUEUE), _fact(decode_queue), (FormatError,)),
    "device class": Target(documents(corpus.DEVICE_CLASS), decode_class, (FormatError,)),
    "resource slice": Target(documents(corpus.RESOURCE_SLICE), decode_slice, (FormatError,)),
    "resource claim": Target(documents(corpus.RESOURCE_CLAIM), decode_claim, (FormatError,)),
    "devices of claims": Target(
        st.tuples(documents(corpus.DEVICE_CLASS), documents(corpus.RESOURCE_SLICE), documents(corpus.RESOURCE_CLAIM)),
        _spread(_allocate),
        (FormatError, AllocationError),
        weight=2,
    ),
    "manifests": Target(texts(*corpus.texts_of(".yaml"), *corpus.TRICKY_YAML), services.read_manifests),
    "recorded-cases": Target(documents(corpus.RECORDED_CASE), _recorded_case, (CommandError,)),
    "library": Target(chain.scenes(), chain.live_through, weight=8),
    "services": Target(services.clusters(), services.serve, weight=4),
    "workloads": Target(services.workloads(), services.control, weight=2),
}
