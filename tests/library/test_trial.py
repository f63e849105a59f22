"""A trial that is not committed leaves the whole state as it was, bit for bit: arrays, and maps of what pods hold."""

from collections.abc import Sequence
from typing import NamedTuple

import pytest
from deviceshare.allocation import Placement, PodClass
from deviceshare.conf import SchedulerConf, parse_conf
from deviceshare.model import (
    HOSTNAME,
    AnyFact,
    Card,
    Disk,
    GroupKey,
    HostPort,
    Now,
    PodGroupFact,
    PodRequest,
    PodSelection,
    PodTerm,
    PodTopology,
    PodVolume,
    QueueFact,
    Requirement,
    VolumeClaimFact,
    VolumeFact,
    VolumeLimitsFact,
)
from deviceshare.scheduler import Scheduler, SchedulerTrial
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from support.builders import MEMORY, NUMBER, ask, card, conf, container, node, pod, share, share_cards, vgpu
from support.hami_vnpu import B3, chips, npu, npu_node
from support.hami_vnpu import DEVICES as NPU_DEVICES
from support.mig import A30, mig_card
from support.mig import DOCS as MIG_DEVICES
from support.whole_state import whole_state

ZONE = "topology.kubernetes.io/zone"
DRIVER = "csi.example.com"
NOW = Now(0.0, 0.0)
CPU = ask(container(cpu=100))
SELECTED = PodSelection((Requirement("app", "In", ("a",)),), namespaces=("ns",))
VOLUME = PodVolume("v", "claim")
REQUESTS = (
    vgpu(1, 4000),
    vgpu(2, 1000, containers=2),
    vgpu(1, percentage=50),
    vgpu(1),
    ask(container(**{NUMBER: 1, MEMORY: 9000})),
    share(3000),
    CPU,
    replace(CPU, host_ports=(HostPort("0.0.0.0", "TCP", 80),)),
    replace(CPU, disks=(Disk(("disk",)),)),
    replace(CPU, volumes=(VOLUME,), unsupported=("spec.volumes[v]",)),
    replace(CPU, topology=PodTopology("ns", (("app", "a"),), anti_affinity=(PodTerm(HOSTNAME, SELECTED),))),
    replace(CPU, topology=PodTopology("ns", affinity=(PodTerm(ZONE, SELECTED),))),
)  # fmt: skip
VNPUS = (npu(1, 3072), npu(1, 6144), npu(2), npu(1, 12288, containers=2), npu(1), CPU)
QUEUES = ("default", "small")
NODES = ("vgpu", "mig", "share")
UIDS = [f"uid-{number}" for number in range(16)]


class Scene(NamedTuple):
    """A configuration, the cards of :data:`NODES`, and what pods request. ``gangs``: pods belong to gangs of three."""

    conf: SchedulerConf
    cards: tuple[Sequence[Card], ...]
    requests: tuple[PodRequest, ...]
    gangs: bool = False

    def uid_groups(self) -> list[GroupKey]:
        """Return the group of each pod."""
        return [GroupKey(f"ns/gang-{number // 3}" if self.gangs else f"pod/{uid}") for number, uid in enumerate(UIDS)]


CARDS = ([card(at, node="v") for at in range(2)], [mig_card(at, node="m") for at in range(2)], share_cards(2))
CAPACITY = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: gang}, {name: PLUGIN, enableHierarchy: true}]
- plugins: [{name: deviceshare, arguments: {deviceshare.VGPUEnable: true, deviceshare.GPUSharingEnable: true}}]
"""
SCENES = {
    "default": Scene(conf(), CARDS, REQUESTS),
    "gangs": Scene(conf("spread", 10), CARDS, REQUESTS, gangs=True),
    "capacity": Scene(parse_conf(CAPACITY.replace("PLUGIN", "capacity"), "capacity"), CARDS, REQUESTS),
    "gangs under drf": Scene(parse_conf(CAPACITY.replace("PLUGIN", "drf"), "drf"), CARDS, REQUESTS, gangs=True),
    "mig": Scene(
        replace(conf("fragmentation", 10), devices=MIG_DEVICES),
        ([], [mig_card(at, node="m") for at in range(2)], [mig_card(0, A30, node="s")]),
        (vgpu(1, 4000), vgpu(1, 9000), vgpu(2, 20000), vgpu(1, 4000, containers=2), CPU),
    ),
    "vnpu": Scene(
        replace(conf("binpack", 10), devices=NPU_DEVICES),
        (chips(2, of="v"), chips(2, networks=(0, 1), of="m"), chips(1, B3, of="s")),
        VNPUS,
    ),
}


def facts_of(scene: Scene) -> list[AnyFact]:
    nodes = (npu_node(list(cards), name) for name, cards in zip(NODES, scene.cards, strict=True))
    labels = ({HOSTNAME: name, ZONE: "one" if name == "vgpu" else "two"} for name in NODES)
    keys = dict.fromkeys(scene.uid_groups()) if scene.gangs else {}
    return [
        *(replace(each, labels=of_node) for each, of_node in zip(nodes, labels, strict=True)),
        QueueFact(name="small", capability={"cpu": 1000, NUMBER: 3}, deserved={NUMBER: 2}, parent="root"),
        *(PodGroupFact(key=key, uid=key, min_member=2, phase="Inqueue", admitted=True) for key in keys),
        VolumeClaimFact(key="ns/claim", volume="pv", bound=True),
        VolumeFact(name="pv", driver=DRIVER, claim="ns/claim"),
        VolumeLimitsFact(name="vgpu", drivers=((DRIVER, 1),)),
        # The first pod without requests gives columns to what is scored of it, for good.
        replace(pod("first", ask(container())), node="share"),
    ]


@st.composite
def schedulers(draw: st.DrawFn, scene: Scene) -> Scheduler:
    """Some pods are bound, with the devices of a decision; the others wait."""
    scheduler = Scheduler("s")
    scheduler.configure(scene.conf)
    for fact in facts_of(scene):
        scheduler.apply(repr(fact), fact, NOW)
    requests, queues = st.integers(0, len(scene.requests) - 1), st.sampled_from(QUEUES)
    for number, (uid, group) in enumerate(zip(UIDS, scene.uid_groups(), strict=True)):
        request = draw(requests)
        labels = (("app", "a"),) if request % 2 else ()
        fact = replace(pod(str(number), scene.requests[request]), labels=labels, queue=draw(queues), group=group)
        scheduler.apply(uid, fact, NOW)
        if draw(st.booleans()):
            with scheduler.trial() as trial:
                placement = trial.place(uid)
            if hasattr(placement, "node"):
                bound = replace(fact, node=placement.node, held=placement.grants, signed=True)
                scheduler.apply(uid, bound, NOW)
    scheduler.cluster.accounts.refresh()
    return scheduler


class Tried:
    """Random changes within trials, some of them nested."""

    def __init__(self, scheduler: Scheduler, data: st.DataObject) -> None:
        self.scheduler, self.data = scheduler, data

    def change(self, trial: SchedulerTrial, depth: int = 0) -> None:
        for kind in self.data.draw(
            st.lists(st.sampled_from(("remove", "place", "group", "reserve", "trial")), max_size=8)
        ):
            uid = self.data.draw(st.sampled_from(UIDS))
            match kind:
                case "remove":
                    trial.remove(uid)
                case "place":
                    trial.remove(uid)
                    trial.place(uid, borrowing=self.data.draw(st.booleans()))
                case "group":
                    trial.place_group(self.scheduler.pods[uid].fact.group, 0.0)
                case "reserve":
                    name = self.data.draw(st.sampled_from(NODES))
                    self.scheduler.cluster.allocator.set_reserved(name, reserved=self.data.draw(st.booleans()))
                case "trial" if depth < 2:
                    with self.scheduler.trial() as inner:
                        self.change(inner, depth + 1)
                        if self.data.draw(st.booleans()):
                            inner.commit()


def classes(scheduler: Scheduler) -> list[PodClass]:
    """Return the classes of all pods as if they were created now: what is counted for them is kept meanwhile."""
    return [scheduler.cluster.classify(replace(record.fact, node=""))[1] for record in scheduler.pods.values()]


def places(scheduler: Scheduler, of: list[PodClass]) -> list[Placement | None]:
    return [scheduler.cluster.allocator.place(pod_class.request) for pod_class in of]


@pytest.mark.parametrize("scene", SCENES.values(), ids=SCENES)
@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_a_trial_that_is_not_committed_changes_nothing(scene: Scene, data: st.DataObject) -> None:
    scheduler = data.draw(schedulers(scene))
    kept = classes(scheduler)
    chosen, before = places(scheduler, kept), whole_state(scheduler.cluster)
    with scheduler.trial() as trial:
        Tried(scheduler, data).change(trial)
    assert whole_state(scheduler.cluster) == before
    assert places(scheduler, kept) == chosen


def _change_and_raise(tried: Tried, trial: SchedulerTrial, inner: SchedulerTrial) -> None:
    tried.change(trial, depth=2)
    inner.commit()
    raise ZeroDivisionError


@settings(max_examples=10, deadline=None)
@given(schedulers(SCENES["default"]), st.data())
def test_an_exception_ends_all_trials(scheduler: Scheduler, data: st.DataObject) -> None:
    kept = classes(scheduler)
    chosen, before = places(scheduler, kept), whole_state(scheduler.cluster)
    with pytest.raises(ZeroDivisionError), scheduler.trial() as trial, scheduler.trial() as inner:
        _change_and_raise(Tried(scheduler, data), trial, inner)
    assert whole_state(scheduler.cluster) == before
    assert places(scheduler, kept) == chosen
    assert scheduler.cluster.allocator.undo_log.entries is None


@settings(max_examples=15, deadline=None)
@given(schedulers(SCENES["default"]))
def test_what_is_committed_stays(scheduler: Scheduler) -> None:
    allocator = scheduler.cluster.allocator
    placed = [uid for uid in UIDS if scheduler.pods[uid].fact.node]
    waits = [uid for uid in UIDS if not scheduler.pods[uid].fact.node]
    with scheduler.trial() as trial:
        for uid in placed[::2]:
            trial.remove(uid)
        trial.commit()
    with scheduler.trial() as trial:
        found = [trial.place(uid) for uid in waits]
    assert all(allocator.holding(scheduler.pods[uid].fact.node, uid) is None for uid in placed[::2])
    assert all(allocator.holding(scheduler.pods[uid].fact.node, uid) is not None for uid in placed[1::2])
    with scheduler.trial() as trial:
        assert [trial.place(uid) for uid in waits] == found


def test_a_pod_goes_where_another_one_was_removed() -> None:
    scheduler = Scheduler("s")
    scheduler.apply("node", node("a", [card(0, node="a", memory=1000)]), NOW)
    scheduler.apply("old", pod("old", vgpu(1, 1000)), NOW)
    with scheduler.trial() as trial:
        placement = trial.place("uid-old")
    scheduler.apply("old", pod("old", vgpu(1, 1000), node="a", held=placement.grants, signed=True), NOW)
    scheduler.apply("new", pod("new", vgpu(1, 1000)), NOW)
    with scheduler.trial() as trial:
        assert not hasattr(trial.place("uid-new"), "node")
        trial.remove("uid-old")
        assert trial.place("uid-new").node == "a"
        trial.commit()
    assert scheduler.holding("a", "uid-new") is not None
    assert scheduler.holding("a", "uid-old") is None
