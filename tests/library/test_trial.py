"""A trial that is not committed leaves the whole state as it was, bit for bit: arrays, and maps of what pods hold."""

import pytest
from deviceshare.allocation import Placement, PodClass
from deviceshare.model import (
    HOSTNAME,
    Disk,
    GroupKey,
    HostPort,
    NodeFact,
    Now,
    PodFact,
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
from support.builders import MEMORY, NUMBER, ask, card, container, node, pod, share, share_cards, vgpu
from support.mig import mig_card
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
QUEUES = ("default", "small")
UIDS = [f"uid-{number}" for number in range(16)]


def nodes() -> list[NodeFact]:
    cards = {
        "vgpu": [card(at, node="v") for at in range(2)],
        "mig": [mig_card(at, node="m") for at in range(2)],
        "share": share_cards(2),
    }
    return [
        node(name, of_node, labels={HOSTNAME: name, ZONE: "one" if name == "vgpu" else "two"})
        for name, of_node in cards.items()
    ]


def waiting(number: int, request: int, queue: int) -> PodFact:
    labels = (("app", "a"),) if request % 2 else ()
    return replace(pod(str(number), REQUESTS[request]), labels=labels, queue=QUEUES[queue])


@st.composite
def schedulers(draw: st.DrawFn) -> Scheduler:
    """Some pods are bound, with the devices of a decision; the others wait."""
    scheduler = Scheduler("s")
    facts = [
        *nodes(),
        QueueFact(name="small", capability={"cpu": 1000, NUMBER: 3}, parent="root"),
        VolumeClaimFact(key="ns/claim", volume="pv", bound=True),
        VolumeFact(name="pv", driver=DRIVER, claim="ns/claim"),
        VolumeLimitsFact(name="vgpu", drivers=((DRIVER, 1),)),
        # The first pod without requests gives columns to what is scored of it, for good.
        replace(pod("first", ask(container())), node="share"),
    ]
    for fact in facts:
        scheduler.apply(repr(fact), fact, NOW)
    requests, queues = st.integers(0, len(REQUESTS) - 1), st.integers(0, 1)
    for number, uid in enumerate(UIDS):
        fact = waiting(number, draw(requests), draw(queues))
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
                    trial.place_group(GroupKey(f"pod/{uid}"), 0.0)
                case "reserve":
                    name = self.data.draw(st.sampled_from(("vgpu", "mig", "share")))
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


@settings(max_examples=40, deadline=None)
@given(schedulers(), st.data())
def test_a_trial_that_is_not_committed_changes_nothing(scheduler: Scheduler, data: st.DataObject) -> None:
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
@given(schedulers(), st.data())
def test_an_exception_ends_all_trials(scheduler: Scheduler, data: st.DataObject) -> None:
    kept = classes(scheduler)
    chosen, before = places(scheduler, kept), whole_state(scheduler.cluster)
    with pytest.raises(ZeroDivisionError), scheduler.trial() as trial, scheduler.trial() as inner:
        _change_and_raise(Tried(scheduler, data), trial, inner)
    assert whole_state(scheduler.cluster) == before
    assert places(scheduler, kept) == chosen
    assert scheduler.cluster.allocator.undo_log.entries is None


@settings(max_examples=15, deadline=None)
@given(schedulers())
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
