"""What volcano-scheduler.conf says of nodes: predicates, nodeorder, binpack, with Volcano's names and defaults."""

import pytest
from deviceshare.conf import ALL_PREDICATES, NodeOrder, Predicates, SchedulerConf, default_conf, parse_conf
from deviceshare.conf.node_plugins import NO_PREDICATES, Binpack
from deviceshare.model import ConfigError


def conf(*plugins: str) -> SchedulerConf:
    return parse_conf("\n".join(f"- {plugin}" for plugin in (*plugins, DEVICES)), "File x")


DEVICES = "{name: deviceshare, arguments: {deviceshare.VGPUEnable: true, deviceshare.ScheduleWeight: 10}}"


def test_without_these_plugins_all_predicates_count_and_nothing_is_scored() -> None:
    for without in (conf(), default_conf()):
        assert (without.predicates, without.nodeorder, without.binpack) == (ALL_PREDICATES, None, None)


def test_without_arguments_volcanos_defaults_hold() -> None:
    plain = conf("name: predicates", "name: nodeorder", "name: binpack")
    assert plain.predicates == ALL_PREDICATES
    assert plain.nodeorder == NodeOrder(1, 0, 2, 1, 3, 2, 1, 2)
    assert plain.binpack == Binpack(1, (("cpu", 1), ("memory", 1)))
    assert plain.warnings == ()


def test_predicates_are_turned_off_one_by_one() -> None:
    one = conf('{name: predicates, arguments: {predicate.NodePortsEnable: "false", predicate.CacheEnable: true}}')
    assert one.predicates == Predicates(node_ports=False)
    assert one.warnings == ()


def test_pods_with_resource_claims_are_placed_only_where_it_is_asked_for() -> None:
    argument = "arguments: {deviceshare.ResourceClaimsEnable: true}"
    assert not conf("name: deviceshare").dra
    assert conf(f"{{name: deviceshare, {argument}}}").dra
    assert not conf(f"{{name: deviceshare, {argument.replace('true', 'false')}}}").dra
    alone = parse_conf(f"- {{name: deviceshare, {argument}}}", "File x")
    assert alone.warnings == ()
    off = parse_conf(f"- {{name: deviceshare, {argument.replace('true', 'false')}}}", "File x")
    assert "no device family is on" in off.warnings[0]
    of_volcano = conf("{name: predicates, arguments: {predicate.DynamicResourceAllocationEnable: true}}")
    assert not of_volcano.dra, "a configuration that was copied from Volcano asks for nothing"
    assert not [each for each in of_volcano.warnings if "DynamicResourceAllocation" in each]


def test_a_predicate_that_is_off_refuses_nothing() -> None:
    some = Predicates(volume_binding=False)
    off = Predicates(volume_binding=False, volume_zone=False, volume_limits=False)
    fields = ("spec.volumes[a]", "spec.resourceClaims")
    assert [field for field in fields if ALL_PREDICATES.refuses(field)] == list(fields)
    assert [field for field in fields if some.refuses(field)] == list(fields)
    assert [field for field in fields if off.refuses(field)] == ["spec.resourceClaims"]
    assert [field for field in fields if NO_PREDICATES.refuses(field)] == ["spec.resourceClaims"]


def test_the_functions_of_a_plugin_are_switched_off() -> None:
    off = conf(
        "{name: predicates, enablePredicate: false}",
        "{name: nodeorder, enableNodeOrder: false}",
        "{name: binpack, enabledNodeOrder: false}",
    )
    assert (off.predicates, off.nodeorder, off.binpack, off.weight) == (NO_PREDICATES, None, None, 10)
    assert parse_conf(DEVICES.replace("{name", "- {enableNodeOrder: false, name", 1), "x").weight == 0


def test_weights_of_nodeorder() -> None:
    weights = "leastrequested.weight: 0, mostrequested.weight: '5', tainttoleration.weight: -1, podaffinity.weight: ''"
    found = conf(f"{{name: nodeorder, arguments: {{{weights}}}}}").nodeorder
    assert found == NodeOrder(least_requested=0, most_requested=5, taint_toleration=-1)


def test_weights_of_binpack() -> None:
    arguments = (
        "binpack.weight: 5, binpack.cpu: 0, binpack.memory: -3, binpack.resources: 'nvidia.com/gpu, example.com/foo,', "
        "binpack.resources.nvidia.com/gpu: '10'"
    )
    found = conf(f"{{name: binpack, arguments: {{{arguments}}}}}")
    assert found.binpack == Binpack(5, (("cpu", 0), ("memory", 1), ("example.com/foo", 1), ("nvidia.com/gpu", 10))), (
        "a weight below 0 is 1"
    )
    assert found.warnings == ()


@pytest.mark.parametrize(
    ("plugin", "argument", "value", "expected"),
    [
        ("nodeorder", "leastrequested.weight", "heavy", "a whole number from -1000000 to 1000000"),
        ("nodeorder", "leastrequested.weight", "1.5", "a whole number from -1000000 to 1000000"),
        ("nodeorder", "nodeaffinity.weight", "9999999", "a whole number from -1000000 to 1000000"),
        ("binpack", "binpack.weight", "--1", "a whole number from -1000000 to 1000000"),
        ("binpack", "binpack.resources", "[nvidia.com/gpu]", "names of resources separated by commas"),
        ("predicates", "predicate.NodeAffinityEnable", "maybe", "one of true, false"),
    ],
)
def test_a_wrong_value_is_an_error_with_its_position(plugin, argument, value, expected) -> None:
    with pytest.raises(ConfigError) as caught:
        conf(f"{{name: {plugin}, arguments: {{{argument}: {value}}}}}")
    assert caught.value.problem.field == f"[0].arguments[{argument}]"
    assert expected in caught.value.problem.expected


@pytest.mark.parametrize(
    ("plugin", "argument", "meant"),
    [
        ("nodeorder", "leastrequest.weight", "leastrequested.weight"),
        ("binpack", "binpack.memmory", "binpack.memory"),
        ("predicates", "predicate.NodePortEnable", "predicate.NodePortsEnable"),
    ],
)
def test_an_unknown_argument_is_a_warning(plugin, argument, meant) -> None:
    (warning,) = conf(f"{{name: {plugin}, arguments: {{{argument}: 1}}}}").warnings
    assert warning.startswith(
        f"File x, line 1, column {24 + len(plugin)}: [0].arguments: unknown argument '{argument}' is ignored"
    )
    assert f"did you mean '{meant}'?" in warning


def test_the_weight_of_a_resource_that_is_not_listed_is_a_warning() -> None:
    arguments = "binpack.resources: example.com/foo, binpack.resources.nvidia.com/gpu: 3"
    assert conf(f"{{name: binpack, arguments: {{{arguments}}}}}").warnings == (
        "File x, line 1, column 101: [0].arguments[binpack.resources.nvidia.com/gpu]: "
        "is ignored: binpack.resources does not name this resource",
    )
