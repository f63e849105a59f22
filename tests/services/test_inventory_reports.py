"""Reports of problems: recorded as Events with retries and a bound, counted, and logged."""

import pytest
from deviceshare.model import ConfigFact, Problem
from deviceshare_bus.cores.core import Log, Now
from deviceshare_bus.messages.codec import encode
from deviceshare_inventory.core import RecordEvent, RecordFailed
from deviceshare_inventory.core import reports as module
from support.inventory import Bus, Driver, change, config_map, node, started, work_off

BAD = {"volcano.sh/node-vgpu-register": "nonsense"}


def broken(count=1):
    """Return a core that has found problems of nodes, and its commands to record Events."""
    driver = Driver()
    driver.begin_list()
    driver.deliver([node(f"n{number}", number + 1, BAD) for number in range(count)])
    return driver, events(driver)


def events(driver):
    return [one for one in driver.take() if isinstance(one, RecordEvent)]


def fail(driver, event, *, final=False):
    driver.handle(RecordFailed(event.token, "no connection", final))
    return events(driver)


@pytest.mark.parametrize(
    ("mode", "reason", "said"),
    [("hard", "InvalidRequest", "'hard' is not valid"), ("soft", "NotEvaluated", "'soft' has no effect")],
)
def test_a_network_topology_is_reported_once(mode, reason, said):
    def group(revision):
        return change("PodGroup", "g", revision, namespace="default", spec={"networkTopology": {"mode": mode}})

    core, bus, (report,) = started([group(1)])
    assert (report.kind, report.name, report.reason) == ("PodGroup", "g", reason)
    assert report.message.startswith("PodGroup default/g: spec.networkTopology")
    assert said in report.message
    assert work_off(core, bus, group(2)) == []


def test_an_event_is_tried_again_with_growing_pauses_and_then_given_up():
    driver, (event,) = broken()
    pauses = []
    for _ in range(module.TRIES - 1):
        assert fail(driver, event) == []
        pauses.append(driver.core.next_due(driver.now) - driver.now.monotonic)
        driver.wait(pauses[-1])
        assert events(driver) == [event], "the same Event, with its time"
    assert pauses == pytest.approx([0.15, 0.3, 0.6, 1.2])  # 0.1 s doubled, half as much longer with jitter
    before = driver.core.open_work
    fail(driver, event)
    assert driver.core.open_work == before - 1
    assert driver.core.next_due(driver.now) is None
    assert driver.counts == {"input_problems": 1, "cluster_errors": 5, "unrecorded_events": 1}
    assert driver.logged[-1].level == "warning"
    assert driver.logged[-1].message == "no Event could be recorded about Node /n0: no connection"


def test_a_refused_event_is_given_up_at_once():
    driver, (event,) = broken()
    fail(driver, event, final=True)
    assert driver.core.next_due(driver.now) is None
    assert driver.counts["unrecorded_events"] == 1


def test_the_oldest_of_too_many_events_are_dropped_and_counted():
    driver, recording = broken(module.WAITING + 500)
    assert len(recording) == module.RECORDING
    assert recording[0].record.name == "n500"
    assert driver.counts == {"input_problems": module.WAITING + 500, "unrecorded_events": 500}
    assert len(driver.logged) == module.WAITING + 500, "the log has all of them"
    assert driver.core.detail["reports"] == module.WAITING
    assert len(fail(driver, recording[0], final=True)) == 1, "the next one"


@pytest.mark.parametrize(("name", "text"), [("scheduler", "tiers: 5"), ("devices", "nvidia: 5")])
def test_an_unusable_configuration_on_the_bus_is_counted_and_reported_once(name, text):
    bus = Bus()
    known = ConfigFact(name=name, text=text, source="ConfigMap kube-system/other", revision="1")
    bus.write(f"cluster.config.{name}", encode(known), None)
    driver, _, recorded = started([node()], 5, bus)
    assert driver.counts["input_problems"] == 1
    (line,) = [one for one in driver.logged if one.level == "warning"]
    assert line.message.startswith("ConfigMap kube-system/other, line 1, column ")
    assert line.details["reason"] == "InvalidConfiguration"
    assert recorded == [], "it is not an object of the cluster"
    assert driver.core.open_work == 0
    driver.begin_list()
    driver.take()
    assert driver.counts["input_problems"] == 1


def test_a_config_map_that_replaces_an_unusable_configuration_takes_effect():
    bus = Bus()
    bus.write("cluster.config.scheduler", encode(ConfigFact(name="scheduler", text="tiers: 5", source="x")), None)
    _, bus, _ = started([config_map("- name: gang", 2)], 5, bus)
    assert bus.fact("cluster.config.scheduler").text == "- name: gang"


def test_a_passing_problem_that_returns_is_reported_once_it_lasts():
    reports, passing = module.Reports(0.0), Problem("Pod default/a", "devices", "GPU-0", "a registered card")
    now = Now(0.0, 0.0)
    for remarks in ([passing], [], [passing]):
        reports.report("pod/a", None, remarks, [passing])
        assert reports.act(now) == []
    now = Now(module.SETTLE, 0.0)
    assert reports.due == now.monotonic
    assert [command.message for command in reports.act(now) if isinstance(command, Log)] == [str(passing)]
    assert (reports.act(Now(2 * module.SETTLE, 0.0)), reports.due) == ([], None)


def test_a_passing_problem_of_an_object_that_is_gone_is_not_reported():
    reports, passing = module.Reports(0.0), Problem("Node n1", "devices", "GPU-0", "a registered card")
    reports.report("cards/n1", None, [passing], [passing])
    reports.act(Now(0.0, 0.0))
    reports.keep("cards/", ())
    assert reports.act(Now(module.SETTLE, 0.0)) == []


@pytest.mark.parametrize("other_ends", [module.SETTLE / 2, module.SETTLE])
def test_a_passing_problem_is_reported_by_one_of_two_replicas_when_the_other_ends(other_ends):
    reports, passing = module.Reports(0.0), Problem("Node n1", "devices", "GPU-0", "a registered card")
    reports.report("cards/n1", None, [passing], [passing])
    for at in (0.0, other_ends):
        reports.discard(Now(at, 0.0))
    reported_by_other = [str(passing)] if other_ends >= module.SETTLE else []
    logged = [one.message for one in reports.act(Now(module.SETTLE, 0.0)) if isinstance(one, Log)]
    assert logged + reported_by_other == [str(passing)]
