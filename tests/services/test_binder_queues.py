"""The status of Queues: phases of PodGroups and usage of their pods, in the form of Volcano's scheduler."""

import pytest
from deviceshare.conf import SCHEDULER, default_conf
from deviceshare.model import ConfigFact, ContainerGrant, DeviceGrant, PodRequest
from deviceshare_binder.core import BinderCore
from deviceshare_binder.core.commands import CreateQueue
from deviceshare_binder.core.events import (
    ClusterFailed,
    ClusterWritten,
    PodChanged,
    PodGroupChanged,
    QueueChanged,
    SchedulerConfigured,
)
from deviceshare_binder.core.groups import Groups
from deviceshare_binder.core.queues import Charges, as_quantities, with_parents
from deviceshare_binder.core.views import PodGroupView, PodUsage, PodView, QueueView
from deviceshare_bus.cores.core import CaughtUp, Log, Now, Tick
from deviceshare_bus.messages.subjects import Stream
from support.binder import BinderDriver
from support.builders import GIB, MEMORY, NUMBER, ask, container, vgpu

NOTHING = {"cpu": "0", "memory": "0"}
CPU = (("cpu", 250), ("pods", 1))


def statuses(groups):
    """Return what is to be written on each Queue."""
    return {one.name: dict(one.status) for one in groups.take(100) if one.kind == "Queue"}


def following(*queues):
    groups = Groups()
    for queue in queues:
        groups.queue(queue.name, queue)
    return groups


def put(groups, uid, amounts=(), *, group="gang", queue="default", node="n"):
    """Let a pod of a PodGroup be bound, with these amounts."""
    groups.group(f"ns/{group}", PodGroupView(key=f"ns/{group}", uid=group, queue=queue, phase="Inqueue"))
    groups.pod(uid, PodView(uid=uid, namespace="ns", name=uid, node=node, group=f"ns/{group}"))
    groups.charge(uid, amounts)


def open_queue(name, parent=""):
    return QueueView(name=name, parent=parent, state="Open")


def test_a_queue_counts_its_groups_by_phase():
    groups = following(open_queue("default"))
    put(groups, "a")
    groups.group("ns/other", PodGroupView(key="ns/other", uid="o", phase="Inqueue"))
    groups.group("ns/else", PodGroupView(key="ns/else", uid="e", queue="another"))
    counts = {"pending": 0, "inqueue": 1, "running": 1, "unknown": 0, "completed": 0, "allocated": NOTHING}
    assert statuses(groups) == {"default": counts}
    groups.group("ns/other", None)
    assert statuses(groups) == {"default": counts | {"inqueue": 0}}


def test_the_status_of_a_queue_and_its_ancestors_shows_the_usage_of_its_pods():
    groups = following(
        open_queue("root"), open_queue("dept", "root"), open_queue("team", "dept"), open_queue("default")
    )
    put(groups, "a", CPU, queue="team")
    put(groups, "b", CPU, group="other", queue="default")
    found = {name: status["allocated"] for name, status in statuses(groups).items()}
    one, two = ({"cpu": cpu, "memory": "0", "pods": pods} for cpu, pods in (("250m", "1"), ("500m", "2")))
    assert found == {"team": one, "dept": one, "default": one, "root": two}
    groups.charge("a", ())
    found = {name: status["allocated"] for name, status in statuses(groups).items()}
    assert found == {"team": NOTHING, "dept": NOTHING, "root": one}


def test_what_pods_have_moves_with_their_group_and_ends_with_them():
    groups = following(open_queue("default"), open_queue("other"))
    put(groups, "a", CPU)
    statuses(groups)
    groups.group("ns/gang", PodGroupView(key="ns/gang", uid="gang", queue="other"))
    found = statuses(groups)
    assert (found["default"]["allocated"], found["other"]["allocated"]["pods"]) == (NOTHING, "1")
    groups.pod("a", None)
    assert statuses(groups)["other"]["allocated"] == NOTHING


def test_pods_count_though_their_group_or_queue_comes_later():
    groups = Groups()
    groups.pod("a", PodView(uid="a", namespace="ns", name="a", node="n", group="ns/gang"))
    groups.charge("a", CPU)
    groups.group("ns/gang", PodGroupView(key="ns/gang", uid="g"))
    groups.queue("default", open_queue("default"))
    assert statuses(groups)["default"]["allocated"]["pods"] == "1"


def test_a_queue_without_a_state_is_opened_and_one_with_a_state_is_left():
    groups = following(QueueView(name="new"), QueueView(name="shut", state="Closed"))
    found = statuses(groups)
    assert found["new"]["state"] == "Open"
    assert "state" not in found["shut"]


def test_queues_that_have_to_be_there():
    groups = following(open_queue("other"))
    assert groups.missing_queues == ["root", "default"]
    groups.queue("root", open_queue("root"))
    assert groups.missing_queues == ["default"]
    groups.queue("default", open_queue("default"))
    groups.queue("root", None)
    assert groups.missing_queues == ["root"]


def test_parents_that_go_round_end():
    queues = {"a": open_queue("a", "b"), "b": open_queue("b", "a")}
    assert list(with_parents("a", queues)) == ["a", "b"]
    assert list(with_parents("unknown", queues)) == ["unknown", "root"]
    assert list(with_parents("root", {"root": open_queue("root", "root")})) == ["root"]


@pytest.mark.parametrize(
    ("amounts", "written"),
    [
        ({}, NOTHING),
        ({"cpu": 1000, "memory": 3 * GIB, "pods": 2}, {"cpu": "1", "memory": "3Gi", "pods": "2"}),
        ({"cpu": 2500, "memory": 1000}, {"cpu": "2500m", "memory": "1k"}),
        ({"memory": 1025, MEMORY: 6000, NUMBER: 0}, {"cpu": "0", "memory": "1025", MEMORY: "6k"}),
        (
            {"nvidia.com/gpu": 4, "ephemeral-storage": 4096},
            NOTHING | {"nvidia.com/gpu": "4", "ephemeral-storage": "4096"},
        ),
    ],
)
def test_amounts_are_written_as_volcano_writes_them(amounts, written):
    assert as_quantities(amounts) == written


def test_what_a_pod_has_is_counted_as_queues_count_it():
    charges = Charges()
    asked = ask(container(cpu=250, memory=GIB), container("init"))
    assert charges.put("a", PodUsage(ask=asked)) == (("cpu", 250), ("memory", GIB), ("pods", 1))
    held = (ContainerGrant("c0", 0, "hami-core", (DeviceGrant("GPU-0", 0, 3000, 0),)),)
    given = dict(charges.put("b", PodUsage(ask=vgpu(1, percentage=50), held=held)))
    assert (given[MEMORY], given[NUMBER], given["pods"]) == (3000, 1, 1)
    charges.drop("b")
    assert {uid: dict(amounts) for uid, amounts in charges.configure(default_conf()).items()} == {
        "a": {"cpu": 250, "memory": GIB, "pods": 1}
    }


def test_the_status_of_a_queue_follows_the_configuration():
    core = BinderDriver()
    core.handle(PodGroupChanged("ns/g", PodGroupView(key="ns/g", uid="g", phase="Running")))
    held = (ContainerGrant("c0", 0, "hami-core", tuple(DeviceGrant(f"GPU-{at}", at, 60, 0) for at in range(2))),)
    view = PodView(uid="u", namespace="ns", name="p", node="n", group="ns/g")
    core.handle(PodChanged("u", view, PodUsage(ask=vgpu(2, 60), held=held)))
    core.start()

    def memory() -> str:
        """Let a second pass; return what is written on the queue."""
        core.reports.clear()
        core.take(core.now + 1.0)
        (status,) = [one for one in core.reports if getattr(one, "name", "") == "default" and one.kind == "Queue"]
        return dict(status.status)["allocated"][MEMORY]

    assert memory() == "120"
    for enabled, counted in (("false", "60"), ("true", "120")):
        arguments = f"deviceshare.VGPUEnable: true, deviceshare.CardQuotaEnable: {enabled}"
        text = f"- {{name: deviceshare, arguments: {{{arguments}}}}}"
        core.handle(SchedulerConfigured(ConfigFact(name=SCHEDULER, text=text, source="test")))
        assert memory() == counted


def test_equal_requests_are_kept_once_and_bounded():
    charges = Charges()
    for number in range(1000):
        charges.put("a", PodUsage(ask=PodRequest(containers=(container(cpu=number),))))
    assert len(charges._requests) < 200


@pytest.mark.parametrize(
    ("state", "counts"),
    [
        ({"node": "n", "group": "ns/g"}, True),
        ({"node": "", "group": "ns/g"}, False),
        ({"node": "n", "group": "pod/u"}, False),
        ({"node": "n", "group": "ns/g", "ended": True}, False),
        ({"node": "n", "group": "ns/g", "terminating": True}, False),
    ],
)
def test_which_pods_count_in_a_queue(state, counts):
    assert PodView(uid="u", namespace="ns", name="p", **state).counts is counts


def test_queues_are_created_as_soon_as_the_cluster_accepts_them():
    core, now, pauses, answers = BinderCore(), 0.0, [], []
    core.handle(CaughtUp(Stream.CLUSTER), Now(now, now))
    for attempt in range(7):
        commands = core.handle(Tick(), Now(now, now))
        creations = [one for one in commands if isinstance(one, CreateQueue)]
        assert creations == [CreateQueue("root", reclaimable=False), CreateQueue("default", reclaimable=True)]
        for one in creations:
            done = ClusterWritten(one) if attempt == 6 else ClusterFailed(one, "the kind is not there", final=True)
            answers += core.handle(done, Now(now, now))
        due = core.next_due(Now(now, now))
        pauses.append(due - now)
        assert not [one for one in core.handle(Tick(), Now(now, due - 0.1)) if isinstance(one, CreateQueue)]
        now = due
    assert pauses == [4.0, 8.0, 16.0, 30.0, 30.0, 30.0, 2.0]
    warnings = [one.message for one in answers if isinstance(one, Log) and one.level == "warning"]
    assert warnings == [f"cannot create queue {name}: the kind is not there" for name in ("root", "default")]
    for name in ("root", "default"):
        core.handle(QueueChanged(name, open_queue(name)), Now(now, now))
    assert not [one for one in core.handle(Tick(), Now(now, now)) if isinstance(one, CreateQueue)]
