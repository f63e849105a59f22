"""What a ``device-config.yaml`` means, and what is said of one that cannot be meant."""

import re
from pathlib import Path

import pytest
import yaml
from deviceshare.conf import (
    BUILT_IN,
    DevicesConf,
    default_conf,
    parse_devices,
)
from deviceshare.families.hami_gpu.request import is_overridden
from deviceshare.families.hami_gpu.section import HamiConf
from deviceshare.families.hami_vnpu.section import VnpuConf, VnpuTemplate
from deviceshare.families.vgpu.section import MAX_INSTANCES, MigInstance, VgpuConf
from deviceshare.model import ConfigError
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

PUBLISHED = Path(__file__).parents[1] / "data" / "device-configs"
SOURCE = "ConfigMap kube-system/devices"

INSTANCE = {"name": "1g.5gb", "memory": 5120, "count": 7}
GROUP = {"group": "group1", "geometries": [INSTANCE]}
MODEL = {"models": ["A100"], "allowedGeometries": [GROUP]}
CHIP = {
    "chipName": "910B3",
    "commonWord": "Ascend910B3",
    "resourceName": "huawei.com/Ascend910B3",
    "resourceMemoryName": "huawei.com/Ascend910B3-memory",
    "memoryAllocatable": 65536,
    "memoryCapacity": 65536,
    "aiCore": 20,
    "aiCPU": 7,
    "templates": [
        {"name": "vir10_3c_32g", "memory": 32768, "aiCore": 10, "aiCPU": 3},
        {"name": "vir05_1c_16g", "memory": 16384, "aiCore": 5, "aiCPU": 1},
    ],
}


def published(name: str) -> DevicesConf:
    return parse_devices((PUBLISHED / f"{name}.yaml").read_text(), SOURCE)


def parse(**sections: object) -> DevicesConf:
    return parse_devices(yaml.safe_dump(sections), SOURCE)


def nvidia(**keys: object) -> DevicesConf:
    return parse(nvidia=keys)


def geometry(*models: dict) -> DevicesConf:
    return nvidia(knownMigGeometries=list(models))


def problem_of(**sections: object):
    with pytest.raises(ConfigError) as caught:
        parse(**sections)
    assert re.fullmatch(rf"{SOURCE}, line \d+, column \d+", caught.value.problem.subject)
    return caught.value.problem


def test_the_config_map_that_the_vgpu_device_plugin_publishes_is_read_without_a_warning():
    conf = published("volcano-vgpu-device-plugin")
    assert conf.warnings == ()
    assert conf.section(VnpuConf).chips == ()
    assert conf.section(VgpuConf) == VgpuConf(geometries=conf.section(VgpuConf).geometries)
    a30, a100, a100_large = conf.section(VgpuConf).geometries
    assert a100.models == ("A100-SXM4-40GB", "A100-40GB-PCIe", "A100-PCIE-40GB")  # it names one of them twice
    assert [group.name for group in a30.groups] == ["group1", "group2", "group3"]
    assert a100.groups[1].instances == (MigInstance("2g.10gb", 10240, 3), MigInstance("1g.5gb", 5120, 1))
    assert a100_large.groups[0].instances == (MigInstance("1g.10gb", 9728, 7),)


def test_the_config_map_that_the_ascend_device_plugin_publishes_is_read_without_a_warning():
    conf = published("ascend-device-plugin")
    assert conf.warnings == ()
    assert conf.section(VnpuConf).hami_vnpu_core is False
    assert [chip.word for chip in conf.section(VnpuConf).chips] == [
        "Ascend910A", "Ascend910B2", "Ascend910B3", "Ascend910B4-1", "Ascend910B4", "Ascend310P", "Ascend910C",
    ]  # fmt: skip
    without_cpus, *_, small, _ = conf.section(VnpuConf).chips
    assert small == BUILT_IN.section(VnpuConf).chips[0]
    assert (without_cpus.ai_cores, without_cpus.ai_cpus) == (30, 0)
    assert without_cpus.core_resource == "huawei.com/Ascend910A-core"  # Volcano adds -core
    # The vGPU names hold in a file that is silent about them.
    assert conf.section(VgpuConf) == VgpuConf()


def test_templates_are_sorted_by_memory_and_both_forms_of_vnpus_mean_the_same():
    bare = parse(vnpus=[CHIP])
    assert bare.section(VnpuConf).chips[0].templates == (
        VnpuTemplate("vir05_1c_16g", 16384, 5, 1),
        VnpuTemplate("vir10_3c_32g", 32768, 10, 3),
    )
    assert parse(vnpus={"configs": [CHIP]}) == bare
    assert parse(vnpus={"hamiVnpuCore": "true", "configs": [CHIP]}) == bare.having(
        replace(bare.section(VnpuConf), hami_vnpu_core=True)
    )


def test_vgpus_and_vnpus_stand_in_one_file():
    conf = parse(nvidia={"knownMigGeometries": [MODEL]}, vnpus={"hamiVnpuCore": True, "configs": [CHIP]})
    assert (
        conf.section(VgpuConf).geometries[0].models,
        conf.section(VnpuConf).chips[0].word,
        conf.section(VnpuConf).hami_vnpu_core,
    ) == (("A100",), "Ascend910B3", True)
    assert conf.warnings == ()


def test_a_manifest_means_what_its_text_means():
    text = yaml.safe_dump({"vnpus": [CHIP]})
    manifest = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "x"},
        "data": {"device-config.yaml": text},
    }
    assert parse_devices(yaml.safe_dump(manifest), SOURCE) == parse_devices(text, SOURCE)


def test_names_that_the_file_does_not_give_are_the_usual_ones_but_a_percentage_has_to_be_named():
    conf = nvidia(resourceCountName="acme.io/vgpu", defaultGPUNum=0, defaultCores=10, defaultMemory=2000)
    assert (conf.section(VgpuConf).number, conf.section(VgpuConf).memory, conf.section(VgpuConf).cores) == (
        "acme.io/vgpu", "volcano.sh/vgpu-memory", "volcano.sh/vgpu-cores",
    )  # fmt: skip
    assert conf.section(VgpuConf).percentage == ""
    assert (
        conf.section(VgpuConf).default_number,
        conf.section(VgpuConf).default_cores,
        conf.section(VgpuConf).default_memory,
    ) == (1, 10, 2000)
    assert nvidia(resourceMemoryPercentageName="acme.io/part").section(VgpuConf).percentage == "acme.io/part"
    assert nvidia(resourceCoreName="").section(VgpuConf).cores == ""


@pytest.mark.parametrize(("value", "factor"), [(0, 1), (None, 1), (1, 1), ("1024", 1024), (10.0, 10)])
def test_a_memory_factor_of_nothing_is_one(value, factor):
    assert nvidia(gpuMemoryFactor=value).section(VgpuConf).memory_factor == factor


def test_keys_of_the_device_plugin_cause_no_warning():
    conf = nvidia(
        overwriteEnv=False, deviceSplitCount=10, deviceMemoryScaling=1.8, deviceCoreScaling="1",
        disableCoreLimit="false", passDeviceSpecs=True, resourcePriorityName="nvidia.com/priority", migstrategy="none",
    )  # fmt: skip
    assert conf.warnings == ()


def test_the_section_hami_is_hamis_section_nvidia():
    section = {
        "resourceCountName": "acme.io/gpu", "resourceMemoryName": "acme.io/mem", "resourceCoreName": "",
        "resourceMemoryPercentageName": "acme.io/part", "resourcePriorityName": "acme.io/priority",
        "defaultMemory": 100,
        "defaultCores": 10, "defaultGPUNum": 1, "memoryFactor": 1024, "overwriteEnv": "false", "deviceSplitCount": 10,
        "deviceMemoryScaling": 1, "deviceCoreScaling": 1, "gpuCorePolicy": "default", "libCudaLogLevel": 1,
        "runtimeClassName": "", "migProfileAllowlist": [{"models": ["A30"], "profiles": ["1g.6gb"]}],
        "preConfiguredDeviceMemory": 0, "enableNumaTopology": False,
    }  # fmt: skip
    conf = parse(hami=section)
    assert conf.warnings == ()
    assert conf.section(HamiConf) == HamiConf(
        number="acme.io/gpu", memory="acme.io/mem", percentage="acme.io/part", cores="", priority="acme.io/priority",
        default_memory=100, default_cores=10, request_factor=1024,
    )  # fmt: skip
    assert (
        parse(hami={"defaultMemory": 0, "defaultCores": 0}).section(HamiConf) == parse().section(HamiConf) == HamiConf()
    )
    assert parse(hami={"defaultCores": 100}).section(HamiConf) == HamiConf(default_cores=100)


def test_hamis_names_under_nvidia_are_doubtful():
    names = {"resourceCountName": "nvidia.com/gpu", "resourceMemoryName": "nvidia.com/gpumem"}
    (warning,) = parse(nvidia=names).warnings
    assert "name the section hami" in warning
    with pytest.raises(ConfigError):
        parse(nvidia=names, hami=names)


def test_the_keys_of_a_chip_in_hamis_configuration_cause_no_warning():
    chip = CHIP | {"memoryFactor": 1, "runtimeClassName": "", "overwriteEnv": "false"}
    assert parse(vnpus=[chip]).warnings == ()
    with pytest.raises(ConfigError):
        parse(vnpus=[CHIP | {"memoryFactor": 2}])


@pytest.mark.parametrize(
    ("sections", "parts"),
    [
        ({"nvidia": {"disablecorelimit": "false"}}, ["nvidia: unknown key 'disablecorelimit'", "'disableCoreLimit'"]),
        ({"nvidia": {"defaultMem": 0}}, ["unknown key 'defaultMem'", "did you mean 'defaultMemory'?"]),
        ({"nvida": {}}, ["unknown key 'nvida'", "did you mean 'nvidia'?"]),
        ({"hygon": {}}, ["unknown key 'hygon' is ignored; known: nvidia, vnpus, hami"]),
        ({"vnpus": {"hamiVNPUCore": True}}, ["vnpus: unknown key", "did you mean 'hamiVnpuCore'?"]),
        ({"vnpus": [CHIP | {"aicore": 20}]}, ["vnpus[0]: unknown key 'aicore'", "did you mean 'aiCore'?"]),
        ({"nvidia": {"knownMigGeometries": [MODEL | {"model": "A100"}]}}, ["did you mean 'models'?"]),
        (
            {"nvidia": {"knownMigGeometries": [MODEL, MODEL | {"models": ["A30", "A100-80GB-PCIe"]}]}},
            ["knownMigGeometries[1].models: 'A100-80GB-PCIe' has no effect", "'A100' of knownMigGeometries[0] first"],
        ),
    ],
)  # fmt: skip
def test_settings_without_effect_cause_a_warning_with_a_suggestion(sections, parts):
    (warning,) = parse(**sections).warnings
    assert re.match(rf"{SOURCE}, line \d+, column \d+: ", warning)
    assert all(part in warning for part in parts), warning


@pytest.mark.parametrize(
    ("template", "key", "limit"),
    [
        ({"name": "big", "memory": 65537}, "memory", "memoryAllocatable of Ascend910B3, 65536"),
        ({"name": "big", "memory": 1024, "aiCore": 21}, "aiCore", "aiCore of Ascend910B3, 20"),
        ({"name": "big", "memory": 1024, "aiCPU": 8}, "aiCPU", "aiCPU of Ascend910B3, 7"),
    ],
)
def test_a_template_that_the_chip_cannot_give_is_left_out_with_a_warning(template, key, limit):
    conf = parse(vnpus={"configs": [CHIP | {"templates": [*CHIP["templates"], template]}]})
    assert [each.name for each in conf.section(VnpuConf).chips[0].templates] == ["vir05_1c_16g", "vir10_3c_32g"]
    (warning,) = conf.warnings
    assert f"vnpus.configs[0].templates[2].{key}: big is left out" in warning
    assert limit in warning


def of_group(**keys: object) -> dict:
    return {"nvidia": {"knownMigGeometries": [MODEL | {"allowedGeometries": [GROUP | keys]}]}}


def of_instance(**keys: object) -> dict:
    return of_group(geometries=[INSTANCE | keys])


def of_chip(**keys: object) -> dict:
    return {"vnpus": [CHIP | keys]}


def of_template(**keys: object) -> dict:
    return of_chip(templates=[CHIP["templates"][0] | keys])


IN_GROUP = "nvidia.knownMigGeometries[0].allowedGeometries[0]"
IN_INSTANCE = f"{IN_GROUP}.geometries[0]"


@pytest.mark.parametrize(
    ("sections", "field", "value", "expected"),
    [
        ({"nvidia": []}, "nvidia", "[]", "names with values"),
        ({"nvidia": {"defaultMemory": -1}}, "nvidia.defaultMemory", "-1", "a whole number from 0"),
        ({"nvidia": {"defaultMemory": True}}, "nvidia.defaultMemory", "true", "a whole number from 0"),
        ({"nvidia": {"defaultCores": 101}}, "nvidia.defaultCores", "101", "a whole number from 0 to 100"),
        ({"hami": {"defaultMemory": -1}}, "hami.defaultMemory", "-1", "a whole number from 0"),
        ({"hami": {"defaultCores": -1}}, "hami.defaultCores", "-1", "a whole number from 0 to 100"),
        ({"hami": {"defaultCores": 101}}, "hami.defaultCores", "101", "a whole number from 0 to 100"),
        ({"nvidia": {"gpuMemoryFactor": 1.5}}, "nvidia.gpuMemoryFactor", "1.5", "a whole number"),
        ({"nvidia": {"deviceSplitCount": "many"}}, "nvidia.deviceSplitCount", "many", "a whole number"),
        ({"nvidia": {"deviceMemoryScaling": 0}}, "nvidia.deviceMemoryScaling", "0", "a number above 0"),
        ({"nvidia": {"deviceCoreScaling": "a lot"}}, "nvidia.deviceCoreScaling", "a lot", "a number above 0"),
        ({"nvidia": {"overwriteEnv": "ture"}}, "nvidia.overwriteEnv", "ture", "did you mean 'true'?"),
        ({"nvidia": {"resourceCountName": "gpus"}}, "nvidia.resourceCountName", "gpus", "such as volcano.sh/vgpu"),
        ({"nvidia": {"resourceCoreName": 5}}, "nvidia.resourceCoreName", "5", "the name of an extended resource"),
        ({"nvidia": {"knownMigGeometries": {}}}, "nvidia.knownMigGeometries", "{}", "a list"),
        (
            {"nvidia": {"knownMigGeometries": [MODEL | {"models": []}]}},
            "nvidia.knownMigGeometries[0].models", "[]", "at least one",
        ),
        (
            {"nvidia": {"knownMigGeometries": [MODEL | {"models": ["A100", ""]}]}},
            "nvidia.knownMigGeometries[0].models[1]", "", "a part of the type of cards",
        ),
        (
            {"nvidia": {"knownMigGeometries": [MODEL | {"allowedGeometries": [GROUP, GROUP]}]}},
            "nvidia.knownMigGeometries[0].allowedGeometries", "group1", "each group once: not 2 times",
        ),
        (of_group(group="a-b"), f"{IN_GROUP}.group", "a-b", "letters, digits, _ and ."),
        (of_group(geometries=None), f"{IN_GROUP}.geometries", "", "a list of instances, at least one"),
        (
            of_group(geometries=[INSTANCE | {"count": MAX_INSTANCES}, INSTANCE | {"count": 1}]),
            f"{IN_GROUP}.geometries", "63 instances in group1", "at most 62 instances in a group",
        ),
        (
            of_group(geometries=[INSTANCE, INSTANCE | {"memory": 4096}]),
            f"{IN_GROUP}.geometries", "1g.5gb", "one memory for all instances of a name",
        ),
        (of_instance(count=0), f"{IN_INSTANCE}.count", "0", "a whole number from 1 to 62"),
        (of_instance(count=None), f"{IN_INSTANCE}.count", "", "a whole number from 1 to 62"),
        (of_instance(memory=0), f"{IN_INSTANCE}.memory", "0", "a whole number from 1"),
        (of_instance(memory="5Gi"), f"{IN_INSTANCE}.memory", "5Gi", "a whole number from 1"),
        (of_instance(name="1g,5gb"), f"{IN_INSTANCE}.name", "1g,5gb", "the name of a MIG profile"),
        ({"vnpus": "all"}, "vnpus", "all", "a list"),
        ({"vnpus": {"hamiVnpuCore": "yes please"}}, "vnpus.hamiVnpuCore", "yes please", "one of true, false"),
        ({"vnpus": {"configs": {}}}, "vnpus.configs", "{}", "a list"),
        ({"vnpus": [CHIP, CHIP]}, "vnpus", "Ascend910B3", "each commonWord once"),
        (of_chip(commonWord=None), "vnpus[0].commonWord", "", "the word by which nodes register the chip"),
        (of_chip(resourceName=None), "vnpus[0].resourceName", "", "the resource by which pods request Ascend910B3"),
        (of_chip(memoryAllocatable=0), "vnpus[0].memoryAllocatable", "0", "a whole number from 1"),
        (of_chip(memoryCapacity=1), "vnpus[0].memoryCapacity", "1", "a whole number from 65536"),
        (of_chip(aiCore=None), "vnpus[0].aiCore", "", "a whole number from 1"),
        (of_template(memory=-5), "vnpus[0].templates[0].memory", "-5", "a whole number from 1"),
        (of_template(name=""), "vnpus[0].templates[0].name", "", "the name of a template"),
        (of_chip(templates=CHIP["templates"] * 2), "vnpus[0].templates", "vir10_3c_32g", "each template once"),
        (
            {"vnpus": [CHIP, CHIP | {"commonWord": "Other"}]},
            "$", "huawei.com/Ascend910B3", "each resource once, not in Ascend910B3 and Other",
        ),
        (
            {"nvidia": {"resourceCountName": "a.io/x", "resourceMemoryName": "a.io/x"}},
            "$", "a.io/x", "each resource once, not in nvidia and nvidia",
        ),
    ],
)  # fmt: skip
def test_a_wrong_value_names_field_value_and_expected_value(sections, field, value, expected):
    problem = problem_of(**sections)
    assert (problem.field, problem.value) == (field, value)
    assert expected in problem.expected


def test_instances_smaller_than_the_memory_factor_would_have_no_memory():
    section = of_instance(memory=1000)["nvidia"] | {"gpuMemoryFactor": 1024}
    assert problem_of(nvidia=section).expected == "a whole number from 1024"


@pytest.mark.parametrize(
    ("text", "field", "expected"),
    [
        ("", "$", "one document: the sections nvidia, vnpus, hami"),
        ("just words", "$", "the sections nvidia, vnpus, hami"),
        ("nvidia: [}", "line 1", "YAML"),
        ("kind: ConfigMap\ndata: {config.json: '{}'}", "data[device-config.yaml]", "the text of the configuration"),
    ],
)
def test_wrong_shapes_are_errors_that_say_where(text, field, expected):
    with pytest.raises(ConfigError) as caught:
        parse_devices(text, SOURCE)
    assert caught.value.problem.field == field
    assert expected in caught.value.problem.expected


yaml_like = st.text("ab:-[]{}#&*! '\"\n.|>1,?%@`~\t", max_size=40)


@given(yaml_like)
def test_any_text_is_either_a_configuration_or_a_config_error(text):
    for whole in (text, f"nvidia:\n  knownMigGeometries: {text}", f"vnpus: {text}"):
        try:
            assert parse_devices(whole, "x").section(VgpuConf).memory_factor == 1
        except ConfigError as error:
            assert error.problem.expected  # noqa: PT017


def test_hami_gives_way_to_any_section_that_names_its_resources() -> None:
    conf = parse(vnpus=[CHIP | {"resourceName": HamiConf().number}])
    (warning,) = conf.warnings
    place = "nvidia.com/gpu is a resource of HAMi's Ascend plugin here: for nodes of HAMi name the section hami"
    assert warning.endswith(place)
    assert is_overridden(replace(default_conf(), devices=conf))
