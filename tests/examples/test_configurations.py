"""Every configuration of the guides, unchanged: the families that it enables, and its warnings."""

import pytest
from deviceshare.conf import parse_conf
from deviceshare.model import ConfigError
from support.example_cluster import EXAMPLES, example_conf

SHARING, NUMBER = "deviceshare.GPUSharingEnable", "deviceshare.GPUNumberEnable"
VGPU = "deviceshare.VGPUEnable"
HAMI, MINDCLUSTER = "deviceshare.AscendHAMiVNPUEnable", "deviceshare.AscendMindClusterVNPUEnable"
WEIGHT_0 = "has the weight 0: among nodes it only breaks ties; set deviceshare.ScheduleWeight"

CONFIGURATIONS = {
    "ascend-hami-configmap": ({HAMI}, "binpack", 0, [WEIGHT_0]),
    "ascend-mindcluster-configmap": ({MINDCLUSTER}, "", 0, ["line 17: '...' marks an omission"]),
    "gpu-number": ({NUMBER}, "", 0, []),
    "gpu-sharing-binpack": ({SHARING}, "binpack", 10, []),
    "gpu-sharing-binpack-then-spread": ({SHARING}, "spread", 10, ["is listed twice: the later arguments count"]),
    "gpu-sharing-configmap": ({SHARING}, "", 0, []),
    "gpu-sharing-configmap-until-1.8.2": ({SHARING}, "", 0, []),
    "gpu-sharing-spread": ({SHARING}, "spread", 10, []),
    "gpu-sharing-with-binpack-plugin": ({SHARING}, "binpack", 0, [WEIGHT_0]),
    "vgpu": ({VGPU}, "binpack", 0, [WEIGHT_0]),
    "vgpu-and-vnpu-configmap": ({VGPU, HAMI}, "binpack", 0, [WEIGHT_0]),
    "vgpu-configmap": ({VGPU}, "binpack", 0, [WEIGHT_0]),
    "vgpu-fragmentation": ({VGPU}, "fragmentation", 10, []),
    "vgpu-spread": ({VGPU}, "spread", 0, [WEIGHT_0]),
}


def test_every_configuration_is_in_the_table():
    assert {path.stem for path in (EXAMPLES / "configurations").iterdir()} == CONFIGURATIONS.keys()


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_the_families_that_a_configuration_enables(name):
    families, policy, weight, warnings = CONFIGURATIONS[name]
    conf = parse_conf((EXAMPLES / "configurations" / f"{name}.conf").read_text(), f"File {name}.conf")
    assert (conf.families, conf.policy, conf.weight) == (families, policy, weight)
    assert conf.actions == ("enqueue", "allocate", "backfill")
    assert len(conf.warnings) == len(warnings)
    assert all(said in warning for said, warning in zip(warnings, conf.warnings, strict=True)), conf.warnings


def test_both_arguments_that_enable_gpu_sharing_mean_the_same():
    old, new = (example_conf(f"configurations/gpu-sharing-configmap{suffix}.conf") for suffix in ("-until-1.8.2", ""))
    assert old.families == new.families
    assert set(old.plugins) == set(new.plugins) - {"deviceshare"}


def test_the_arguments_of_other_plugins_are_kept():
    arguments = example_conf("configurations/gpu-sharing-with-binpack-plugin.conf").arguments["binpack"]
    assert arguments == {
        "binpack.weight": "5",
        "binpack.resources": "nvidia.com/gpu",
        "binpack.resources.nvidia.com/gpu": "10",
    }


def test_the_parameters_of_mindcluster_after_the_omitted_part_are_read():
    conf = example_conf("configurations/ascend-mindcluster-configmap.conf")
    assert conf.configurations == {"init-params": {"grace-over-time": "900", "presetVirtualDevice": "false"}}


@pytest.mark.parametrize(
    ("name", "config_map"),
    [
        ("vgpu-configmap", ("kube-system", "volcano-vgpu-device-config")),
        ("ascend-hami-configmap", ("kube-system", "hami-scheduler-device")),
        ("vgpu-and-vnpu-configmap", ("kube-system", "vgpu-and-vnpu-device-config")),
    ],
)
def test_the_device_configuration_that_is_named_or_that_of_the_device_plugin(name, config_map):
    assert example_conf(f"configurations/{name}.conf").geometries_config_map == config_map


def test_the_configuration_of_make_run_enables_every_family():
    conf = example_conf("volcano-scheduler.conf")
    assert (conf.policy, conf.weight, conf.warnings) == ("binpack", 10, ())
    assert conf.families == {SHARING, NUMBER, VGPU, HAMI, MINDCLUSTER, "deviceshare.HAMiGPUEnable"}


def test_without_deviceshare_there_is_a_warning():
    conf = example_conf("refused/deviceshare-not-enabled.conf")
    assert conf.families == frozenset()
    (warning,) = conf.warnings
    assert "deviceshare is not configured: no device family is on" in warning


def test_a_configmap_without_indentation_is_refused_with_the_missing_field():
    path = EXAMPLES / "refused" / "vgpu-configmap-without-indentation.conf"
    with pytest.raises(ConfigError) as refused:
        parse_conf(path.read_text(), "File a.conf")
    assert str(refused.value) == (
        "File a.conf, line 6, column 6: data[volcano-scheduler.conf]: '' is not valid: "
        "expected the text of the configuration"
    )
