"""A configuration that cannot be used is a problem, and the last good one stays in effect."""

from deviceshare.conf import EffectiveConfiguration
from deviceshare.model import ConfigFact

GOOD = "- name: deviceshare\n  arguments: {deviceshare.VGPUEnable: true, deviceshare.SchedulePolicy: spread}"
BAD = GOOD.replace("spread", "spreat")


def scheduler(text: str) -> ConfigFact:
    return ConfigFact(name="scheduler", text=text, source="File a.conf")


def test_a_configuration_that_cannot_be_used_is_exposed_until_a_good_one_comes() -> None:
    effective = EffectiveConfiguration()
    assert effective.take(scheduler(GOOD))
    assert effective.problems == {}
    assert not effective.take(scheduler(BAD))
    assert effective.conf.policy == "spread"
    assert effective.problems["scheduler"].subject == "File a.conf, line 2, column 73"
    assert not effective.take(ConfigFact(name="devices", text="nvidia: 5", source="x"))
    assert set(effective.problems) == {"scheduler", "devices"}
    assert not effective.take(scheduler(GOOD))
    assert set(effective.problems) == {"devices"}


def test_a_configuration_that_is_gone_has_no_problem() -> None:
    effective = EffectiveConfiguration()
    effective.take(scheduler(BAD))
    assert not effective.drop("scheduler")
    assert effective.problems == {}


def test_facts_of_other_names_change_nothing() -> None:
    effective = EffectiveConfiguration()
    assert not effective.take(ConfigFact(name="other", text="[", source="x"))
    assert not effective.drop("other")
    assert effective.problems == {}
