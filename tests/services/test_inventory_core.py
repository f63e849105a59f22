"""What inventory publishes, whatever the order of answers: the facts on the bus become those of the cluster."""

import pytest
from deviceshare.model import ConfigFact, Gone, NodeFact, OtherPodFact, PodFact, Synced
from deviceshare_bus.cores.core import Read, RecordStep, Write, WriteConflict, WriteRefused
from deviceshare_bus.messages.codec import Message, encode
from deviceshare_bus.messages.subjects import SYNCED, fact
from deviceshare_cluster.interface import Change, ChangeType, EventRecord, Listed
from deviceshare_inventory.core import RestartWatch, WatchFailed
from deviceshare_inventory.core.desired_state import _content
from msgspec.structs import replace
from support.inventory import Bus, Driver, change, config_map, execute, gone, node, pod, started, work_off

GOOD = "- name: deviceshare\n  arguments: {deviceshare.VGPUEnable: true}"
BETTER = f"{GOOD}\n- name: gang"
BAD = "tiers: 5"
DEVICES = "volcano-vgpu-device-config"


def test_synced_is_written_after_all_facts():
    core, bus, said = started([node(), pod(revision=2)], 7)
    assert bus.log[-1][0] == SYNCED
    assert bus.fact(SYNCED) == Synced(revision="7", at=1.0, objects=3)  # node, pod, configuration
    assert bus.fact(fact("config", "scheduler")) == ConfigFact(name="scheduler", text="", source="defaults")
    assert said == [RecordStep("u1", "default/a", "seen", at=1.0)]
    assert core.revision == 7
    assert core.open_work == 0


def test_revision_waits_for_the_acknowledgement_of_everything_before_it():
    core, bus, _ = started([node()], 5)
    core.deliver(
        [node(revision=6, allocatable={"cpu": "1"}), node("n2", revision=8), node(revision=9, allocatable={"cpu": "2"})]
    )
    assert (core.revision, core.open_work) == (5, 2)
    first, second = core.take()
    execute(core, bus, second)
    assert core.revision == 5
    execute(core, bus, first)
    work_off(core, bus)
    assert (core.revision, core.open_work) == (9, 0)


def test_a_heartbeat_costs_no_message_but_moves_the_revision():
    core, bus, _ = started([node(revision=3)], 3)
    written = len(bus.log)
    core.deliver([node(revision=4), node(revision=5, conditions=[{"type": "Ready", "status": "True"}])])
    assert core.take() == []
    assert core.revision == 5
    assert len(bus.log) == written


def test_a_restart_publishes_only_what_changed():
    _, bus, _ = started([node("n1"), node("n2"), pod()], 3)
    written = len(bus.log)
    _, bus, said = started([node("n1", 9), node("n2", 8, unknown=1), pod(revision=7, node="n1")], 9, bus)
    assert [subject for subject, *_ in bus.log[written:]] == ["cluster.pod.u1", SYNCED]
    assert said == []


def test_an_object_that_vanished_between_lists_gets_a_tombstone():
    _, bus, _ = started([node("n1"), node("n2"), pod(), config_map("nvidia: {}", 1, DEVICES, "device-config.yaml")])
    _, bus, _ = started([node("n1")], 20, bus)
    assert bus.fact("cluster.node.n2") == Gone(revision="20")
    assert isinstance(bus.fact("cluster.pod.u1"), Gone)
    assert isinstance(bus.fact("cluster.config.devices"), Gone)
    assert isinstance(bus.fact("cluster.node.n1"), NodeFact)


def test_a_tombstone_expires_and_the_object_can_come_back():
    core, bus, _ = started([node("n1")])
    core.deliver([gone("Node", "n1", 2)])
    (write,) = core.take()
    assert write.writes[0].ttl == 3600
    execute(core, bus, write)
    del bus.messages["cluster.node.n1"]
    work_off(core, bus, node("n1", 3))
    assert isinstance(bus.fact("cluster.node.n1"), NodeFact)
    assert core.open_work == 0


def test_a_pod_made_anew_under_its_name_buries_the_old_one():
    core, bus, _ = started([pod(uid="old", node="n1")])
    core.deliver([pod(uid="new", revision=5)])
    assert {(step.uid, step.name) for step in work_off(core, bus)} == {("old", "gone"), ("new", "seen")}
    assert isinstance(bus.fact("cluster.pod.old"), Gone)
    assert isinstance(bus.fact("cluster.pod.new"), PodFact)
    work_off(core, bus, gone("Pod", "a", 6))
    assert isinstance(bus.fact("cluster.pod.new"), Gone)


def test_a_pod_group_that_returns_under_its_name_replaces_the_tombstone():
    def group(revision, minimum):
        return change("PodGroup", "g", revision, namespace="default", spec={"minMember": minimum})

    core, bus, _ = started([group(1, 2)])
    work_off(core, bus, gone("PodGroup", "g", 2))
    assert isinstance(bus.fact("cluster.podgroup.default.g"), Gone)
    work_off(core, bus, group(3, 4))
    assert bus.fact("cluster.podgroup.default.g").min_member == 4
    assert core.open_work == 0


def test_a_pod_that_was_replaced_between_watches_is_gone():
    core, bus, _ = started([pod(uid="old", node="n1"), pod("b", "b1", 2)])
    core.begin_list()
    recorded = {(step.uid, step.name) for step in work_off(core, bus, pod(uid="new", revision=5), Listed(6))}
    assert recorded == {("old", "gone"), ("new", "seen")}
    assert isinstance(bus.fact("cluster.pod.old"), Gone)
    assert isinstance(bus.fact("cluster.pod.b1"), Gone)


def test_which_pods_are_published():
    core, bus, _ = started(
        [
            pod("ours", "1", scheduler="deviceshare"),
            pod("foreign-waiting", "2", scheduler="default-scheduler"),
            pod("foreign-bound", "3", scheduler="default-scheduler", node="n1"),
            pod("ended-before", "4", node="n1", phase="Succeeded"),
            pod("ends", "5", node="n1"),
        ]
    )
    assert {subject for subject in bus.messages if ".pod." in subject} == {f"cluster.pod.{n}" for n in (1, 3, 5)}
    work_off(core, bus, pod("ends", "5", 2, node="n1", phase="Failed"))
    assert bus.fact("cluster.pod.5").ended
    work_off(core, bus, gone("Pod", "ends", 3))
    assert isinstance(bus.fact("cluster.pod.5"), Gone)


def test_a_writer_that_slept_leaves_newer_facts_alone():
    core, bus, _ = started([node("n1", 3)], 3)
    newer = NodeFact(name="n1", revision="9", unschedulable=True)
    bus.write("cluster.node.n1", encode(newer), None)
    work_off(core, bus, node("n1", 5, allocatable={"cpu": "1"}))
    assert bus.fact("cluster.node.n1") == newer
    assert core.open_work == 0
    work_off(core, bus, node("n1", 10, allocatable={"cpu": "1"}))
    assert bus.fact("cluster.node.n1").allocatable == {"cpu": 1000}


def test_problems_are_reported_once_until_they_change():
    bad = {"volcano.sh/node-vgpu-register": "nonsense"}
    core, bus, said = started([node("n1", 1, bad)])
    assert [(one.kind, one.name, one.reason) for one in said] == [("Node", "n1", "InvalidDeviceAnnotation")]
    assert "volcano.sh/node-vgpu-register" in said[0].message
    assert not [one for one in work_off(core, bus, node("n1", 2, bad)) if isinstance(one, EventRecord)]
    core.deliver([node("n1", 3), node("n1", 4, bad)])
    assert len([one for one in work_off(core, bus) if isinstance(one, EventRecord)]) == 1


def test_an_unreadable_object_is_quarantined_and_reported_once():
    core, bus, _ = started([node("n1")])
    broken = Change(ChangeType.APPLIED, "Node", "", "n1", 5, b'{"metadata": {"name": 7}}')
    core.deliver([broken, broken._replace(revision=6), node("n2", 7)])
    assert len([one for one in work_off(core, bus) if isinstance(one, EventRecord)]) == 1
    assert isinstance(bus.fact("cluster.node.n1"), Gone)
    assert isinstance(bus.fact("cluster.node.n2"), NodeFact)


def test_a_bad_configuration_leaves_the_last_good_one():
    core, bus, _ = started([config_map(GOOD, 1)])
    (report,) = work_off(core, bus, config_map(BAD, 2))
    assert (report.kind, report.reason) == ("ConfigMap", "InvalidConfiguration")
    assert bus.fact("cluster.config.scheduler").text == GOOD
    core, bus, said = started([config_map(BAD, 2)], bus=bus)  # a restart does not forget it either
    assert len(said) == 1
    assert bus.fact("cluster.config.scheduler").text == GOOD
    work_off(core, bus, config_map(BETTER, 3, key="other.conf"))
    assert bus.fact("cluster.config.scheduler").text == BETTER


def test_devices_that_cannot_be_read_leave_the_last_good_ones_and_without_a_config_map_there_are_none():
    def devices(text, revision):
        return config_map(text, revision, DEVICES, "device-config.yaml")

    core, bus, said = started([devices("nvidia: {gpuMemoryFactor: many}", 1)])
    assert [(one.name, one.reason) for one in said] == [(DEVICES, "InvalidConfiguration")]
    assert "cluster.config.devices" not in bus.messages
    assert work_off(core, bus, devices("nvidia: {gpuMemoryFactor: 2}", 2)) == []
    assert len(work_off(core, bus, devices("nvidia: {gpuMemoryFactor: many}", 3))) == 1
    assert bus.fact("cluster.config.devices").text == "nvidia: {gpuMemoryFactor: 2}"
    core, bus, said = started([devices("nvidia: {gpuMemoryFactor: many}", 3)], 5, bus)
    assert len(said) == 1
    assert bus.fact("cluster.config.devices").text == "nvidia: {gpuMemoryFactor: 2}"
    work_off(core, bus, Change(ChangeType.DELETED, "ConfigMap", "kube-system", DEVICES, 6, b""))
    assert isinstance(bus.fact("cluster.config.devices"), Gone)


def test_warnings_of_a_configuration_are_reported_once_until_it_was_valid():
    misspelt = f"{GOOD}\ntier: []".replace("- name", "tiers:\n- plugins:\n  - name", 1).replace("\n  arg", "\n    arg")
    core, bus, said = started([config_map(misspelt, 1)])
    (report,) = said
    assert (report.kind, report.namespace, report.name) == ("ConfigMap", "kube-system", "volcano-scheduler-configmap")
    assert report.reason == "ConfigurationWarning"
    assert "unknown key 'tier' is ignored (did you mean 'tiers'?)" in report.message
    assert work_off(core, bus, config_map(misspelt, 2), node(revision=3)) == []
    assert work_off(core, bus, config_map(GOOD, 4)) == []
    assert len(work_off(core, bus, config_map(misspelt, 5))) == 1


def test_a_file_comes_before_a_config_map():
    file = ConfigFact(name="scheduler", text=BETTER, source="File x")
    core, bus, events = started([config_map(GOOD, 1)], file=file)
    overridden = "ConfigMap kube-system/volcano-scheduler-configmap is not in effect: File x (--conf) overrides it"
    assert [event.message for event in events] == [overridden]
    (event,) = work_off(core, bus, config_map(BAD, 2))
    assert event.message.endswith("tiers: '5' is not valid: expected a list")
    assert bus.fact("cluster.config.scheduler") == file


def test_a_failed_watch_is_started_again_with_growing_pauses():
    core, _, _ = started([node()])
    pauses = []
    for _ in range(8):
        core.handle(WatchFailed("no connection", final=False))
        assert core.take() == []
        pauses.append(core.core.next_due(core.now) - core.now.monotonic)
        core.wait(pauses[-1])
        assert core.take() == [RestartWatch()]
        core.begin_list()
    assert pauses == pytest.approx([0.15, 0.3, 0.6, 1.2, 2.4, 4.8, 7.5, 7.5])  # half as much longer with jitter
    for pause in (1.5, 3.0, 6.0):
        core.handle(WatchFailed("forbidden", final=True))
        assert core.core.next_due(core.now) - core.now.monotonic == pytest.approx(pause)
    core.begin_list()
    core.deliver([node(), Listed(7)])
    core.handle(WatchFailed("no connection", final=False))
    assert core.core.next_due(core.now) - core.now.monotonic == pytest.approx(0.15)
    core.handle(WatchFailed("forbidden", final=True))
    assert core.core.next_due(core.now) - core.now.monotonic == pytest.approx(1.5)
    core.take()
    assert core.counts["cluster_errors"] == 13


def test_a_watch_that_lists_again_is_restarted():
    core, bus, _ = started([node("n1"), node("n2")])
    core.deliver([Listed(7)])
    assert core.take() == [RestartWatch()]
    core.begin_list()
    work_off(core, bus, node("n1"), Listed(8))
    assert isinstance(bus.fact("cluster.node.n2"), Gone)


def test_a_write_that_the_bus_refuses_is_reported_and_repeated_later():
    core, bus, _ = started([node()])
    core.deliver([node("big", 6)])
    (write,) = core.take()
    core.handle(WriteRefused(write.token, "too large"))
    assert core.take() == []
    assert (core.counts["facts_refused"], core.open_work) == (1, 0)
    assert core.logged[-1].message == "the bus refused the fact cluster.node.big: too large"
    assert core.core.next_due(core.now) - core.now.monotonic == pytest.approx(1.0)
    core.wait(1.0)
    (again,) = core.take()
    assert (again.writes, core.core.open_work) == (write.writes, 1)
    core.handle(WriteRefused(again.token, "too large"))
    core.deliver([node("big", 6)])
    assert core.take() == [], "the same fact waits"
    assert core.core.next_due(core.now) - core.now.monotonic == pytest.approx(2.0)
    work_off(core, bus, node("big", 7, allocatable={"cpu": "1"}))
    assert isinstance(bus.fact("cluster.node.big"), NodeFact)


def execute_all_but(core, bus, *subjects):
    """Execute all commands; the bus refuses the facts of these subjects."""
    while commands := core.take():
        for command in commands:
            if isinstance(command, Write) and command.writes[0].subject in subjects:
                core.handle(WriteRefused(command.token, "too large"))
            else:
                execute(core, bus, command)


def test_synced_waits_for_an_object_that_the_bus_refused_and_does_not_hold():
    """Placement takes a bound pod without a fact for gone as soon as the cluster is synced."""
    core, bus = Driver(), Bus()
    core.load_all(bus)
    core.begin_list()
    core.deliver([node(), pod(node="n1"), Listed(5)])
    for _ in range(3):
        execute_all_but(core, bus, "cluster.pod.u1")
        assert isinstance(bus.fact("cluster.node.n1"), NodeFact)
        assert SYNCED not in bus.messages
        assert core.open_work == 1
        core.wait(60.0)
    work_off(core, bus)
    assert isinstance(bus.fact("cluster.pod.u1"), PodFact)
    assert bus.log[-1][0] == SYNCED


@pytest.mark.parametrize("deleted", [True, False])
def test_synced_does_not_wait_for_a_refused_fact_of_an_object_that_is_gone_or_on_the_bus(deleted):
    _, bus, _ = started([] if deleted else [pod(node="n1")])
    del bus.messages[SYNCED]
    core = Driver()
    core.load_all(bus)
    core.begin_list()
    core.deliver([pod(node="n1", revision=4, labels={"a": "b"}), Listed(5)])
    execute_all_but(core, bus, "cluster.pod.u1")
    assert (SYNCED in bus.messages) is not deleted
    if deleted:
        work_off(core, bus, gone("Pod", "a", 6))
    work_off(core, bus)
    assert bus.fact(SYNCED).revision == "5"


def test_a_pod_that_waits_for_devices_from_another_scheduler_is_published_while_it_waits():
    limits, others = {"volcano.sh/vgpu-number": "1"}, "default-scheduler"
    core, bus, said = started([pod("other", "o1", 2, others, limits=limits)])
    assert bus.fact("cluster.otherpod.o1") == OtherPodFact(
        revision="2", uid="o1", namespace="default", name="other", scheduler="default-scheduler",
        served=("deviceshare", "volcano"),
    )  # fmt: skip
    assert said == []
    work_off(core, bus, pod("other", "o1", 3, others, "n1", limits=limits))
    assert isinstance(bus.fact("cluster.otherpod.o1"), Gone)
    assert isinstance(bus.fact("cluster.pod.o1"), PodFact)
    work_off(core, bus, pod("more", "o2", 4, others, limits=limits))
    work_off(core, bus, gone("Pod", "more", 5))
    assert isinstance(bus.fact("cluster.otherpod.o2"), Gone)
    work_off(core, bus, pod("cpu-only", "o3", 6, others))
    assert "cluster.otherpod.o3" not in bus.messages


def test_a_tombstone_that_the_bus_refuses_is_written_later():
    core, bus, _ = started([node("n1")])
    core.deliver([Change(ChangeType.DELETED, "Node", "", "n1", 6, b"")])
    (write,) = core.take()
    core.handle(WriteRefused(write.token, "too large"))
    core.wait(1.0)
    work_off(core, bus)
    assert isinstance(bus.fact("cluster.node.n1"), Gone)


def test_a_message_that_comes_before_the_answer_to_its_write_is_known_until_the_answer_says_that_it_is_anothers():
    core, _, _ = started([node("n1")])
    core.deliver([node("n1", 6, allocatable={"cpu": "1"})])
    (write,) = core.take()
    (sent,) = write.writes
    delivered = Message(sent.subject, sent.expected + 1, sent.message)
    assert core.core.knows(delivered)
    assert not core.core.knows(delivered._replace(data=encode(Gone(revision="6"))))
    assert not core.core.knows(delivered._replace(subject="cluster.node.n2"))
    core.handle(WriteConflict(write.token))
    assert core.take() == [Read("CLUSTER", sent.subject)]
    assert not core.core.knows(delivered)


def test_the_content_of_a_fact_is_its_message_without_the_revision():
    fact = PodFact(revision="12", uid="u", namespace="default", name="revision", labels=(("revision", "13"),))
    same = _content(fact)
    for revision in ("13", "9", "1" * 20, "2" * 30):
        other = _content(replace(fact, revision=revision))
        assert (other.digest, other.revision) == (same.digest, int(revision) if len(revision) <= 20 else 0)
    for changed in ({"name": "x"}, {"labels": (("revision", "12"),)}, {"uid": "v"}):
        assert _content(replace(fact, **changed)).digest != same.digest
