import re
from pathlib import Path

import pytest
from deviceshare.conf import SchedulerConf, add_family_flag, default_conf, parse_conf
from deviceshare.conf.known import family_flags
from deviceshare.families import FAMILIES
from deviceshare.model import ConfigError
from deviceshare.policies import CARD_POLICIES
from hypothesis import given
from hypothesis import strategies as st
from support.families import restored_families

EXAMPLES = Path(__file__).parents[2] / "examples" / "configurations"
SHARING, NUMBER, VGPU = "deviceshare.GPUSharingEnable", "deviceshare.GPUNumberEnable", "deviceshare.VGPUEnable"


def deviceshare(**arguments) -> SchedulerConf:
    return parse_conf(text_of(**arguments), "File conf.yaml")


def text_of(**arguments) -> str:
    lines = [f"      deviceshare.{key}: {value}" for key, value in arguments.items()]
    return "\n".join(["tiers:", "- plugins:", "  - name: gang", "  - name: deviceshare", "    arguments:", *lines])


def problem_of(text: str):
    with pytest.raises(ConfigError) as caught:
        parse_conf(text, "File conf.yaml")
    assert caught.value.problem.subject.startswith("File conf.yaml")
    return caught.value.problem


def test_plugins_are_kept_tier_by_tier():
    conf = parse_conf((EXAMPLES / "gpu-sharing-binpack.conf").read_text(), "File conf.yaml")
    assert [[plugin.name for plugin in tier] for tier in conf.tiers] == [
        ["priority", "gang", "conformance"],
        ["predicates", "proportion", "nodeorder", "binpack", "deviceshare"],
    ]
    assert conf.plugins == tuple(plugin.name for tier in conf.tiers for plugin in tier)
    assert conf.enabled("JobOrder")[:2] == ("priority", "gang")


def test_without_any_configuration_every_family_is_on():
    assert {family.flag for family in FAMILIES} <= default_conf().families
    assert (default_conf().policy, default_conf().weight, default_conf().warnings) == ("", 0, ())


def test_the_config_map_of_the_devices_is_the_one_that_is_named():
    conf = deviceshare(KnownGeometriesCMName="merged", KnownGeometriesCMNamespace="volcano-system")
    assert conf.geometries_config_map == ("volcano-system", "merged")


def test_reclaim_looks_at_so_many_ancestors_as_the_plugin_capacity_says():
    def level(argument: str) -> SchedulerConf:
        lines = ["tiers:", "- plugins:", "  - name: capacity", f"    arguments: {{{argument}}}"]
        return parse_conf("\n".join(lines), "File conf.yaml")

    assert level("").ancestor_reclaim_level == 0
    assert level("ancestorReclaimLevel: 2").ancestor_reclaim_level == 2
    with pytest.raises(ConfigError, match="a whole number from 0"):
        level("ancestorReclaimLevel: -1")


def test_mig_cards_are_cut_by_the_best_group_unless_the_first_is_wanted():
    assert deviceshare().mig_geometry == "best-fit"
    assert deviceshare(MIGGeometryPolicy="best-fit").mig_geometry == "best-fit"
    assert deviceshare(MIGGeometryPolicy="first-fit").mig_geometry == "first-fit"


def test_rules_of_exclusion_are_sets_of_labels():
    rules = "[{workloadType: training}, {workloadType: batch, priority: high}, {priority: high, workloadType: batch}]"
    assert deviceshare(GPUExclusiveRules=rules).exclusive_rules == (
        (("workloadType", "training"),),
        (("priority", "high"), ("workloadType", "batch")),
    )
    assert deviceshare(GPUExclusiveRules="").exclusive_rules == ()


@pytest.mark.parametrize(
    ("value", "field", "shown", "expected"),
    [
        ("{app: a}", "", '{"app":"a"}', "a list of rules"),
        ("[training]", "[0]", "training", "labels and their values"),
        ("[{app: a}, {}]", "[1]", "{}", "at least one"),
        ("[{app: a, batch: on}]", "[0][batch]", "true", "the value of a label as text, in quotes"),
        ("[{app: 010}]", "[0][app]", "8", "the value of a label as text, in quotes"),
    ],
)
def test_a_rule_that_cannot_be_meant_is_an_error(value, field, shown, expected):
    problem = problem_of(text_of(GPUExclusiveRules=value))
    assert problem.field == f"tiers[0].plugins[1].arguments[deviceshare.GPUExclusiveRules]{field}"
    assert problem.value == shown
    assert expected in problem.expected


@pytest.mark.parametrize("name", ["''", "'bad key'", "a/b/c", "-a", "é", "/a", "a/"])
def test_a_label_that_nothing_can_have_causes_a_warning(name):
    (warning,) = deviceshare(VGPUEnable="true", GPUExclusiveRules=f"[{{{name}: x, example.com/a_b.c: y}}]").warnings
    assert "is no name of a label" in warning


def test_the_flag_of_a_registered_family_is_known():
    with restored_families():
        add_family_flag("deviceshare.AcmeEnable")
        conf = deviceshare(AcmeEnable="true")
    assert (conf.families, conf.warnings) == ({"deviceshare.AcmeEnable"}, ())


def test_the_built_in_families_are_known_in_their_order():
    assert family_flags() == tuple(dict.fromkeys(family.flag for family in FAMILIES))


def test_structures_are_kept_as_text():
    conf = deviceshare(VGPUEnable="true", GPUExclusiveRules="[{app: a}, {app: b}]")
    assert conf.arguments["deviceshare"]["deviceshare.GPUExclusiveRules"] == '[{"app":"a"},{"app":"b"}]'


@pytest.mark.parametrize(
    ("arguments", "name", "value", "expected"),
    [
        (
            {"SchedulePolicy": "binpak"},
            "SchedulePolicy",
            "binpak",
            ["one of binpack, spread", "did you mean 'binpack'?"],
        ),
        ({"SchedulePolicy": "Spread"}, "SchedulePolicy", "Spread", ["did you mean 'spread'?"]),
        ({"SchedulePolicy": "random"}, "SchedulePolicy", "random", ["one of binpack, spread"]),
        ({"SchedulePolicy": "[binpack]"}, "SchedulePolicy", '["binpack"]', ["one of binpack, spread"]),
        ({"VGPUEnable": "maybe"}, "VGPUEnable", "maybe", ["one of true, false"]),
        ({"VGPUEnable": "ture"}, "VGPUEnable", "ture", ["did you mean 'true'?"]),
        ({"VGPUEnable": "2"}, "VGPUEnable", "2", ["one of true, false"]),
        ({"ScheduleWeight": "-1"}, "ScheduleWeight", "-1", ["whole number from 0"]),
        ({"ScheduleWeight": "2.5"}, "ScheduleWeight", "2.5", ["whole number from 0"]),
        ({"ScheduleWeight": "heavy"}, "ScheduleWeight", "heavy", ["whole number from 0"]),
        ({"ScheduleWeight": "9" * 30}, "ScheduleWeight", "9" * 30, ["whole number from 0"]),
        ({"NodeLockEnable": "perhaps"}, "NodeLockEnable", "perhaps", ["one of true, false"]),
        ({"MIGGeometryPolicy": "bestfit"}, "MIGGeometryPolicy", "bestfit", ["did you mean 'best-fit'?"]),
        ({"KnownGeometriesCMName": "a/b"}, "KnownGeometriesCMName", "a/b", ["the name of a ConfigMap"]),
        ({"KnownGeometriesCMNamespace": "Kube"}, "KnownGeometriesCMNamespace", "Kube", ["the name of a namespace"]),
    ],
)
def test_a_wrong_value_names_field_value_and_expected_value(arguments, name, value, expected):
    problem = problem_of(text_of(**arguments))
    assert problem.field == f"tiers[0].plugins[1].arguments[deviceshare.{name}]"
    assert problem.value == value
    assert all(part in problem.expected for part in expected)


def test_an_unknown_spelling_far_from_all_gets_no_suggestion():
    assert "did you mean" not in problem_of(text_of(SchedulePolicy="random")).expected


def test_the_path_in_a_bare_list_has_no_tiers():
    problem = problem_of("- name: deviceshare\n  arguments:\n    deviceshare.SchedulePolicy: binpak\n")
    assert problem.field == "[0].arguments[deviceshare.SchedulePolicy]"


def test_the_old_flag_of_predicates_is_checked_with_its_position():
    problem = problem_of("- name: predicates\n  arguments: {predicate.GPUSharingEnable: often}\n")
    assert problem.field == "[0].arguments[predicate.GPUSharingEnable]"


@pytest.mark.parametrize(
    ("text", "field", "expected"),
    [
        ("", "$", "one document"),
        ("# nothing", "$", "one document"),
        ("just words", "$", "actions and tiers"),
        ("actions: [\n", "line 2", "YAML"),
        ("tiers:\n- plugins: *missing\n", "line 2", "YAML"),
        ("- name: gang\n- name: drf\n  name: gang", "line 3", "YAML (the key 'name' occurs twice)"),
        ("tiers: {plugins: []}", "tiers", "a list"),
        ("tiers: [gang]", "tiers[0]", "names with values"),
        ("tiers: [{plugins: gang}]", "tiers[0].plugins", "a list"),
        ("tiers: [{plugins: [gang]}]", "tiers[0].plugins[0]", "names with values"),
        ("tiers: [{plugins: [{arguments: {}}]}]", "tiers[0].plugins[0].name", "the name of a plugin"),
        ("tiers: [{plugins: [{name: drf, arguments: [a]}]}]", "tiers[0].plugins[0].arguments", "names with values"),
        ("actions: {enqueue: true}", "actions", "names separated by commas"),
        ("configurations: [init-params]", "configurations[0]", "names with values"),
        ("kind: ConfigMap\ndata: {other: x}", "data[volcano-scheduler.conf]", "the text of the configuration"),
        ("kind: ConfigMap\n", "data[volcano-scheduler.conf]", "the text of the configuration"),
        ("kind: ConfigMap\ndata: {volcano-scheduler.conf: 'a: [}'}", "line 1", "YAML"),
        ("a: 1\n---\nb: 2\n", "$", "one document"),
        ("!!python/object:os.system {}", "line 1", "YAML"),
        ("when: 2026-99-99", "$", "YAML"),
        ("when: !!timestamp x", "$", "YAML"),
        ("weight: !!int", "line 1", "YAML (not a whole number"),
        ("on: !!bool x", "$", "YAML"),
        ("tiers: [{plugins: [{name: drf, arguments: {a: 0x" + "f" * 4000 + "}}]}]", "line 1", "at most 4300 digits"),
        ("tiers: " + "[" * 100_000 + "]" * 100_000, "line 1", "more than 200 levels"),
        ('name: "\\ud800"', "line 1", "YAML (found invalid Unicode character"),
    ],
)
def test_wrong_shapes_are_errors_that_say_where(text, field, expected):
    problem = problem_of(text)
    assert problem.field == field
    assert expected in problem.expected


def test_the_configmap_is_found_among_other_documents():
    text = (
        "kind: Namespace\nmetadata: {name: volcano-system}\n---\n"
        + (EXAMPLES / "gpu-sharing-configmap.conf").read_text()
    )
    assert parse_conf(text, "File x").families == {SHARING}


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("actions: enqueue, alocate\n", ["unknown action 'alocate'", "did you mean 'allocate'?", "backfill"]),
        ("- name: devicesahre\n", ["[0].name", "unknown plugin 'devicesahre'", "did you mean 'deviceshare'?"]),
        ("- name: gang\n  argument: {}\n", ["[0]", "unknown key 'argument'", "did you mean 'arguments'?"]),
        (
            "- name: gang\n  enableJobOder: false\n",
            ["[0]", "unknown key 'enableJobOder'", "did you mean 'enableJobOrder'?"],
        ),
        ("tier: []\n", ["unknown key 'tier'", "did you mean 'tiers'?"]),
        (
            "- name: deviceshare\n  arguments: {deviceshare.VGPUEnabled: true}\n",
            ["unknown argument 'deviceshare.VGPUEnabled'", "did you mean 'deviceshare.VGPUEnable'?"],
        ),
    ],
)
def test_unknown_names_are_warnings_with_the_nearest_known_one(text, parts):
    warning = parse_conf(text, "File x").warnings[0]
    assert re.match(r"File x, line \d, column \d+: ", warning)
    assert all(part in warning for part in parts)


def test_unknown_actions_are_left_out_and_switches_of_plugins_are_known():
    assert parse_conf("actions: enqueue, dance, backfill", "x").actions == ("enqueue", "backfill")
    conf = parse_conf(
        "- {name: gang, enablePreemptable: false}\n- {name: deviceshare, arguments: {deviceshare.VGPUEnable: 1}}", "x"
    )
    assert conf.warnings == ()


def test_a_configuration_that_turns_no_device_on_says_so():
    assert "deviceshare is not configured" in parse_conf("- name: gang", "x").warnings[-1]
    assert VGPU in deviceshare(SchedulePolicy="spread").warnings[-1]


yaml_like = st.text("ab:-[]{}#&*! '\"\n.|>1,?%@`~\t", max_size=40)


@given(yaml_like)
def test_any_text_is_either_a_configuration_or_a_config_error(text):
    for whole in (text, f"tiers:\n- plugins:\n  - name: deviceshare\n    arguments: {text}"):
        try:
            assert parse_conf(whole, "x").policy in CARD_POLICIES
        except ConfigError as error:
            assert error.problem.expected  # noqa: PT017


@pytest.mark.parametrize("value", ["&a [*a]", "1" * 40, "{1: {null: 2}}", "!!set {a, b}", "2026-02-03", ".nan"])
def test_odd_arguments_of_other_plugins_are_kept_as_text(value):
    conf = parse_conf(f"- name: sla\n  arguments: {{x: {value}}}\n", "x")
    assert isinstance(conf.arguments["sla"]["x"], str)


@pytest.mark.parametrize("switch", ["enableJobOrder", "enabledJobOrder"])
def test_a_function_of_a_plugin_is_turned_off_by_its_switch(switch):
    conf = parse_conf(f"- name: priority\n  {switch}: false\n- name: drf\n  {switch}: true", "File conf.yaml")
    assert conf.enabled("JobOrder") == ("drf",)
    assert conf.does("priority", "TaskOrder")
    assert problem_of(f"- name: gang\n  {switch}: maybe").field == f"[0].{switch}"


def test_hierarchies_are_off_until_they_are_turned_on():
    conf = parse_conf("- name: capacity\n  enableHierarchy: true\n- name: drf", "File conf.yaml")
    assert (conf.has_hierarchy("capacity"), conf.has_hierarchy("drf")) == (True, False)
    assert not any("ierarchy" in warning for warning in conf.warnings)
    conf = parse_conf("- name: capacity\n  enabledHierarchy: true", "File conf.yaml")
    assert not conf.has_hierarchy("capacity"), "Volcano passes by this key"
    (warning,) = [warning for warning in conf.warnings if "ierarchy" in warning]
    assert "unknown key 'enabledHierarchy' is ignored (did you mean 'enableHierarchy'?)" in warning


def test_drf_with_hierarchies_beside_proportion_is_a_warning():
    both = "tiers: [{plugins: [{name: drf, enableHierarchy: true}, {name: proportion}]}]"
    message = (
        "File conf.yaml, line 1, column 9: tiers[0]: "
        "Volcano refuses proportion beside drf with enableHierarchy; the first listed counts"
    )
    assert message in parse_conf(both, "File conf.yaml").warnings
    apart = "tiers: [{plugins: [{name: drf, enableHierarchy: true}]}, {plugins: [{name: proportion}]}]"
    assert not any("refuses" in warning for warning in parse_conf(apart, "File conf.yaml").warnings)


def test_without_any_configuration_work_is_done_in_the_usual_order():
    assert default_conf().enabled("JobOrder") == ("priority", "gang", "conformance", "drf", "predicates", "proportion")


def test_actions_and_plugins_that_are_not_evaluated_are_named():
    conf = parse_conf("actions: allocate, shuffle\ntiers: [{plugins: [{name: tdm}, {name: drf}]}]", "File conf.yaml")
    assert conf.actions == ("allocate", "shuffle")
    assert [warning for warning in conf.warnings if "evaluated" in warning] == [
        "File conf.yaml, line 1, column 10: actions: the action 'shuffle' is not evaluated and has no effect",
        "File conf.yaml, line 2, column 27: tiers[0].plugins[0].name: "
        "of the plugin 'tdm' only the rules of evictions are evaluated: nodes with a revocable zone get pods at all "
        "times",
    ]


def test_times_of_preemption_are_read():
    usual = parse_conf("actions: preempt", "conf.yaml")
    assert (usual.preemption_timeout, usual.preemption_delay) == (300.0, 0.0)
    text = "[{name: deviceshare, arguments: {deviceshare.%s: %s}}]"
    assert parse_conf(text % ("PreemptionTimeoutSeconds", 60), "conf.yaml").preemption_timeout == 60.0
    assert parse_conf(text % ("PreemptionDelaySeconds", 5), "conf.yaml").preemption_delay == 5.0
    with pytest.raises(ConfigError, match="PreemptionDelaySeconds"):
        parse_conf(text % ("PreemptionDelaySeconds", -1), "conf.yaml")


@pytest.mark.parametrize(
    ("policy", "weight", "least", "warned"),
    [
        ("binpack", 10, 1, False), ("binpack", 1, 1, True), ("fragmentation", 3, 5, True), ("spread", 1, 5, False),
        ("binpack", 1, 0, False), ("", 1, 5, False),
    ],
)  # fmt: skip
def test_a_policy_that_leastrequested_outweighs_is_a_warning(policy, weight, least, warned):
    arguments = f"      deviceshare.SchedulePolicy: {policy}\n" if policy else ""
    text = (
        "tiers:\n- plugins:\n  - name: deviceshare\n    arguments:\n      deviceshare.VGPUEnable: true\n"
        f"      deviceshare.ScheduleWeight: {weight}\n{arguments}"
        f"  - name: nodeorder\n    arguments:\n      leastrequested.weight: {least}\n"
    )
    shown = [each for each in parse_conf(text, "x").warnings if "leastrequested" in each]
    assert bool(shown) == warned, shown
