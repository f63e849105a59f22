"""Nodes, requests and annotations of Ascend 310P vNPUs in MindCluster's format."""

from deviceshare.families import BY_NAME
from deviceshare.families.mindcluster.chips import CPUS
from deviceshare.families.mindcluster.wire import chip_id
from deviceshare.model import UNMADE, Card
from support.builders import ask, claim_of, container, node

CORES, REAL = "huawei.com/npu-core", "huawei.com/AscendReal"
MINDCLUSTER = BY_NAME["mindcluster"]
LABELS = {"ring-controller.atlas": "ascend-310P"}


def chips(count, *, sick=()):
    """Return the chips of a node; those at the indexes ``sick`` are unhealthy."""
    return tuple(
        Card(chip_id(at), at, 7, 0, 8, "310P3", healthy=at not in sick, mode="mindcluster") for at in range(count)
    )


def npus(name="n1", count=1, *, sick=(), cores=None):
    """Return a node with chips, which offers ``cores`` AI cores (all by default)."""
    return node(name, chips(count, sick=sick), **{CORES: 8 * count if cores is None else cores})


def labelled(*containers, level=None, dvpp=None, labels=LABELS, **rest):
    """Return a request with the labels of a MindCluster task."""
    wishes = labels | {"vnpu-level": level, "vnpu-dvpp": dvpp}
    found = tuple(sorted((key, value) for key, value in wishes.items() if value is not None))
    return ask(*containers, labels=found, **rest)


def asks(cores, level=None, dvpp=None):
    """Return a request of one container for a number of AI cores."""
    return labelled(container(**{CORES: cores}), level=level, dvpp=dvpp)


def annotations(placement, now=1.5):
    """Return the annotations that are written for a placement at ``now`` (unix seconds)."""
    return MINDCLUSTER.annotations(claim_of(placement), placement.node, ["main"], now)


def given(placement):
    """Return the annotation from which the device plugin reads the chips of the pod."""
    assert placement is not None
    return annotations(placement)[CORES]


def bound(allocator, text, uid, cores, real=UNMADE, where="n1"):
    """Hold the chips of a bound pod by its annotations; ``real`` is the vNPU that the device plugin reports."""
    written = {CORES: text} if real == UNMADE else {CORES: text, REAL: real}
    allocator.hold(where, uid, MINDCLUSTER.held(written, asks(cores), "ns/a"), ())


def made(template, group, chip=0):
    """Return the name of a vNPU as the device plugin reports it."""
    return f"Ascend310P-{template}-10{group}-{chip}_{group}"


def taken(allocator, name="n1"):
    """Return the AI cores and AI CPUs in use of each chip."""
    cores = [each.cores for each in allocator.used_cards(name)]
    return list(zip(cores, allocator.card_state(name, CPUS), strict=True))


CONTAINERS = [
    labelled(container(**{CORES: 4})),
    labelled(container("a", **{CORES: 1}), container("b"), container("c", **{CORES: 1})),
    labelled(container("a", **{CORES: 4}), container("b", **{CORES: 12})),
    labelled(container("a", **{CORES: 1}), init_containers=(container("i", **{CORES: 4}),)),
    labelled(container("a", **{CORES: 3}), init_containers=(container("s", sidecar=True, **{CORES: 1}),)),
    labelled(container("a"), init_containers=(container("i", **{CORES: 16}),)),
    labelled(
        container("a", **{CORES: 8}),
        init_containers=(container("s", sidecar=True, **{CORES: 8}), container("i", **{CORES: 8})),
    ),
]
"""Requests of pods with AI cores in one or several containers."""
