"""The arguments of deviceshare that disable extensions of Volcano, and the numbers that may be configured."""

import msgspec
import pytest
from deviceshare.conf import Extensions, SchedulerConf, default_conf, parse_conf
from deviceshare.conf.known import EXTENSIONS
from deviceshare.model import ConfigError
from hypothesis import given
from hypothesis import strategies as st

LARGEST = 2**31 - 1


def conf(plugin: str = "deviceshare", **arguments: object) -> SchedulerConf:
    """Return the configuration of one plugin beside deviceshare, whose vGPUs are on."""
    lines = [f"    {name.replace('_', '-')}: {value}" for name, value in arguments.items()]
    if plugin == "deviceshare":
        lines = [line.replace("    ", "    deviceshare.", 1) for line in lines]
    own = ["- name: deviceshare", "  arguments: {deviceshare.VGPUEnable: true}"] if plugin != "deviceshare" else []
    return parse_conf("\n".join([*own, f"- name: {plugin}", "  arguments:", *lines]), "File conf.yaml")


def rejected(plugin: str = "deviceshare", **arguments: object) -> str:
    """Return what is expected in place of an argument that is an error."""
    with pytest.raises(ConfigError) as caught:
        conf(plugin, **arguments)
    return caught.value.problem.expected


def test_every_extension_is_on_unless_it_is_disabled():
    assert conf(VGPUEnable="true").extensions == Extensions() == default_conf().extensions
    assert all(msgspec.structs.asdict(Extensions()).values())
    assert not default_conf().node_lock, "no extension: Volcano locks nodes where the flag says so"


@given(st.dictionaries(st.sampled_from(sorted(EXTENSIONS)), st.booleans()))
def test_each_argument_disables_its_extension_and_no_other(flags):
    arguments = {flag.removeprefix("deviceshare."): str(on).lower() for flag, on in flags.items()}
    found = msgspec.structs.asdict(conf(VGPUEnable="true", **arguments).extensions)
    assert found == {field: flags.get(flag, True) for flag, field in EXTENSIONS.items()}


def test_a_number_has_inclusive_bounds():
    for number in (0, 1, LARGEST):
        assert conf(VGPUEnable="true", StarvationSeconds=number).starvation == number
    for wrong in (-1, LARGEST + 1, "1.5", "true", "9" * 11, "²", "x"):
        assert "a whole number from 0" in rejected(VGPUEnable="true", StarvationSeconds=wrong)
    assert conf(VGPUEnable="true", StarvationSeconds="3.0").starvation == 3
    assert conf(VGPUEnable="true", StarvationSeconds="' '").starvation == SchedulerConf().starvation == 300.0


@pytest.mark.parametrize(
    ("word", "value"),
    [(word, True) for word in ("1", "t", "true", "T", "True", "' TRUE '", "yes", "on")]
    + [(word, False) for word in ("0", "f", "false", "F", "False", "FALSE", "no", "")],
)
def test_booleans_are_those_of_volcano(word, value):
    assert conf(VGPUEnable=word, NodeLockEnable=word).node_lock is value


@pytest.mark.parametrize("word", ["yes please", "2", "tru", "-1", "''"])
def test_any_other_word_is_no_boolean(word):
    assert rejected(VGPUEnable=word).startswith("one of true, false")


@pytest.mark.parametrize(("factor", "found"), [("1.0", 1.0), ("1.2", 1.2), ("2", 2.0)])
def test_the_overcommit_factor_is_used(factor, found):
    assert conf("overcommit", overcommit_factor=factor).overcommit == found


@pytest.mark.parametrize("factor", ["0.99", "0", "-1", "much", "nan", "inf"])
def test_an_overcommit_factor_below_one_is_an_error(factor):
    assert rejected("overcommit", overcommit_factor=factor).startswith("a number from 1")


def test_overcommit_is_off_without_its_plugin_and_usual_without_its_argument():
    assert default_conf().overcommit == 0.0
    assert parse_conf("- name: overcommit\n- name: deviceshare", "x").overcommit == 1.2


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90.0), ("30m", 1800.0), ("1.5h", 5400.0), ("1h2m3s4ms", 3723.004)]
)
def test_the_waiting_time_of_sla_is_used(text, seconds):
    assert conf("sla", sla_waiting_time=text).waiting_time == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["0s", "'0'", "-1s", "soon", "5", "1h 5m", "''"])
def test_a_waiting_time_that_is_none_is_an_error(text):
    assert rejected("sla", sla_waiting_time=text) == "a time such as 90s, 30m or 1h30m"


def test_a_waiting_time_outside_of_sla_is_ignored():
    assert parse_conf("- name: gang\n  arguments: {sla-waiting-time: 5m}", "x").waiting_time is None
