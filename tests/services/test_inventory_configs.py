"""Which ConfigMap configures what, and what holds where one is wrong."""

import json
from pathlib import Path

import pytest
import yaml
from deviceshare_cluster.interface import Change, ChangeType
from deviceshare_inventory.configs import DEFAULTS, Configs
from deviceshare_inventory.shell import check_conf

SEEDS = Path(__file__).parents[1] / "data" / "seeds"
GOOD = "actions: allocate\ntiers: []"


def config_map(name, data, revision=1, namespace="volcano-system", kind=ChangeType.APPLIED):
    raw = json.dumps({"metadata": {"namespace": namespace, "name": name}, "data": data}).encode()
    return Change(kind, "ConfigMap", namespace, name, revision, raw)


def scheduler(text, **fields):
    return config_map("volcano-scheduler-configmap", {"volcano-scheduler.conf": text}, **fields)


@pytest.mark.parametrize("name", ["configmap-vgpu", "configmap-mindcluster", "configmap-gpu-sharing"])
def test_the_scheduler_configuration_of_the_guides_is_found(name):
    tree = yaml.safe_load((SEEDS / f"{name}.yaml").read_text())
    configs = Configs(None, check_conf)
    assert configs.apply(config_map(tree["metadata"]["name"], tree["data"])) == []
    config = configs.scheduler()
    assert (config.name, config.source) == ("scheduler", "ConfigMap volcano-system/volcano-scheduler-configmap")
    assert "deviceshare" in config.text


def test_configurations_are_known_by_their_name():
    configs = Configs(None, check_conf)
    assert configs.apply(config_map("other", {"volcano-scheduler.conf": GOOD})) == []
    assert configs.scheduler() == DEFAULTS
    assert configs.apply(scheduler(GOOD, revision=3)) == []
    assert (configs.scheduler().text, configs.scheduler().revision) == (GOOD, "3")
    assert configs.devices() is None
    assert configs.apply(config_map("hami-scheduler-device", {"device-config.yaml": "nvidia: {}"})) == []
    assert configs.apply(config_map("volcano-vgpu-device-config", {"device-config.yaml": "first: {}"})) == []
    devices = configs.devices()
    assert devices is not None
    assert (devices.name, devices.text) == ("devices", "first: {}")


def test_what_cannot_be_used_is_told_and_the_last_good_one_stays():
    configs = Configs(None, check_conf)
    configs.apply(scheduler(GOOD))
    configs.scheduler()
    (problem,) = configs.apply(scheduler("tiers: 5", revision=2))
    assert (problem.field, problem.value) == ("tiers", "5")
    assert configs.scheduler().text == GOOD
    (problem,) = configs.apply(config_map("volcano-scheduler-configmap", {"README": "x"}, revision=3))
    assert (problem.subject, problem.field) == (
        "ConfigMap volcano-system/volcano-scheduler-configmap",
        "data",
    )
    configs.apply(scheduler("", revision=4, kind=ChangeType.DELETED))
    assert configs.scheduler() == DEFAULTS
