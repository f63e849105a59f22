"""Which ConfigMap configures what, and what holds where one is wrong."""

import json
from pathlib import Path

import pytest
import yaml
from deviceshare.model import ConfigFact
from deviceshare_inventory.core.configs import DEFAULTS, Configs
from support.inventory import change

EXAMPLES = Path(__file__).parents[2] / "examples" / "configurations"
GOOD = "- name: deviceshare\n  arguments: {deviceshare.VGPUEnable: true}"
USUAL, OTHER = "volcano-vgpu-device-config", "hami-scheduler-device"


def config_map(name, data, revision=1, namespace="volcano-system", **fields):
    return change("ConfigMap", name, revision, namespace=namespace, data=data, **fields)


def scheduler(text, **fields):
    return config_map("volcano-scheduler-configmap", {"volcano-scheduler.conf": text}, **fields)


def naming(name, namespace="kube-system"):
    arguments = {
        "deviceshare.VGPUEnable": True,
        "deviceshare.KnownGeometriesCMName": name,
        "deviceshare.KnownGeometriesCMNamespace": namespace,
    }
    return scheduler(json.dumps([{"name": "deviceshare", "arguments": arguments}]))


def devices(text, name=USUAL, **fields):
    return config_map(name, {"device-config.yaml": text}, namespace="kube-system", **fields)


def resolved(*changes, configs=None):
    configs = configs or Configs(None)
    for each in changes:
        configs.apply(each)
    return configs.resolve()


def texts(found):
    return {place: [str(remark) for remark in remarks] for place, remarks in found.remarks.items() if remarks}


@pytest.mark.parametrize("name", ["vgpu-configmap", "gpu-sharing-configmap"])
def test_the_scheduler_configuration_of_the_guides_is_found(name):
    tree = yaml.safe_load((EXAMPLES / f"{name}.conf").read_text())
    found = resolved(config_map(tree["metadata"]["name"], tree["data"]))
    warnings = [each for remarks in texts(found).values() for each in remarks]
    assert ["has the weight 0" in each for each in warnings] == [True] * (name == "vgpu-configmap")
    config = found.scheduler
    assert (config.name, config.source) == (
        "scheduler",
        "ConfigMap volcano-system/volcano-scheduler-configmap data[volcano-scheduler.conf]",
    )
    assert "deviceshare" in config.text


def test_the_scheduler_configuration_is_known_by_its_name():
    configs = Configs(None)
    assert not configs.apply(config_map("other", {"volcano-scheduler.conf": GOOD}))
    assert configs.resolve().scheduler == DEFAULTS
    assert configs.apply(scheduler(GOOD, revision=3))
    found = configs.resolve().scheduler
    assert (found.text, found.revision) == (GOOD, "3")


def test_the_devices_are_those_of_the_device_plugins_config_map_unless_another_is_named():
    configs = Configs(None)
    for each in (devices("nvidia: {}"), devices("vnpus: []", OTHER), devices("nvidia: {defaultCores: 1}", "third")):
        assert configs.apply(each)
    found = configs.resolve().devices
    assert (found.name, found.text, found.source) == (
        "devices",
        "nvidia: {}",
        f"ConfigMap kube-system/{USUAL} data[device-config.yaml]",
    )
    assert resolved(naming(OTHER), configs=configs).devices.text == "vnpus: []"
    # Another one is named while it runs, one that nothing had named when it came.
    assert resolved(naming("third"), configs=configs).devices.text == "nvidia: {defaultCores: 1}"
    assert resolved(scheduler("", deleted=True), configs=configs).devices.text == "nvidia: {}"


def test_a_file_names_the_devices_as_well():
    text = "- name: deviceshare\n  arguments: {deviceshare.KnownGeometriesCMName: hami-scheduler-device}"
    file = ConfigFact(name="scheduler", text=text, source="File x")
    found = resolved(scheduler(GOOD), devices("vnpus: []", OTHER), configs=Configs(file))
    assert (found.scheduler, found.devices.text) == (file, "vnpus: []")


def test_a_config_map_beside_a_file_is_reported_if_it_says_something_else():
    file = ConfigFact(name="scheduler", text=GOOD, source="File x")
    place = ("volcano-system", "volcano-scheduler-configmap")
    overridden = "ConfigMap volcano-system/volcano-scheduler-configmap is not in effect: File x (--conf) overrides it"
    assert texts(resolved(scheduler(GOOD), configs=Configs(file))) == {}
    assert texts(resolved(naming("other"), configs=Configs(file))) == {place: [overridden]}
    found = texts(resolved(scheduler("- name: ["), configs=Configs(file)))[place]
    assert found[0].startswith("ConfigMap volcano-system/volcano-scheduler-configmap data[volcano-scheduler.conf]")
    assert found[1:] == [overridden]


def test_a_missing_config_map_of_devices_is_reported_only_if_it_was_named():
    found = resolved(scheduler(GOOD))
    assert (found.devices, texts(found)) == (None, {})
    configs = Configs(None)
    found = resolved(naming("mine"), devices("nvidia: {}"), configs=configs)
    assert found.devices is None
    (text,) = texts(found)["kube-system", "mine"]
    assert text.startswith("ConfigMap kube-system/mine: data: '' is not valid: expected the key device-config.yaml")
    assert "deviceshare.KnownGeometriesCMName" in text
    # The ConfigMap is required now, so one without the key is reported too.
    found = resolved(config_map("mine", {"config.json": ""}, namespace="kube-system"), configs=configs)
    (text,) = texts(found)["kube-system", "mine"]
    assert text.startswith("ConfigMap kube-system/mine: data: 'config.json' is not valid")
    found = resolved(devices("nvidia: {}", "mine"), configs=configs)
    assert (found.devices.text, texts(found)) == ("nvidia: {}", {})


def test_an_unusable_configuration_is_reported_and_the_last_usable_one_stays():
    configs = Configs(None)
    assert texts(resolved(scheduler(GOOD), devices("nvidia: {}"), configs=configs)) == {}
    found = resolved(scheduler("tiers: 5", revision=2), devices("nvidia: 5", revision=3), configs=configs)
    (problem,) = found.remarks["volcano-system", "volcano-scheduler-configmap"]
    assert (problem.field, problem.value) == ("tiers", "5")
    (problem,) = found.remarks["kube-system", USUAL]
    assert (problem.subject, problem.field, problem.value) == (
        f"ConfigMap kube-system/{USUAL} data[device-config.yaml], line 1, column 9", "nvidia", "5",
    )  # fmt: skip
    assert (found.scheduler.text, found.devices.text) == (GOOD, "nvidia: {}")

    found = resolved(config_map("volcano-scheduler-configmap", {"README": "x"}, revision=4), configs=configs)
    (problem,) = found.remarks["volcano-system", "volcano-scheduler-configmap"]
    assert (problem.field, problem.value) == ("data", "README")
    assert found.scheduler.text == GOOD

    gone = (scheduler("", deleted=True), devices("", deleted=True))
    found = resolved(*gone, configs=configs)
    assert (found.scheduler, found.devices, found.remarks) == (DEFAULTS, None, {})


def test_warnings_name_their_config_map():
    found = resolved(scheduler(f"{GOOD}\n- name: gagn"), devices("nvidia: {defaultMem: 0}"))
    reported = texts(found)
    assert "did you mean 'gang'?" in reported["volcano-system", "volcano-scheduler-configmap"][0]
    assert "did you mean 'defaultMemory'?" in reported["kube-system", USUAL][0]
    assert found.devices is not None


def test_only_config_maps_that_may_configure_something_are_decoded():
    configs = Configs(None)
    assert not configs.apply(config_map("leader-election", {"holder": "x"}))
    assert not configs.apply(config_map("leader-election", {}, deleted=True))
    assert configs.apply(devices("nvidia: {}", "x"))
    assert configs.apply(config_map("x", {"other": ""}, namespace="kube-system"))  # it may have been named
    assert not configs.apply(config_map("x", {"other": ""}, namespace="kube-system"))
