"""The configurations under which cases were recorded."""

import json
from collections.abc import Mapping

from deviceshare.conf import BUILT_IN, FIRST_FIT, DevicesConf, SchedulerConf, parse_conf, parse_devices
from msgspec.structs import replace

from deviceshare_cli.conformance.cases import BUILT_IN_NAME, Case, CaseFile

WITHOUT_CONFIG_MAP = replace(BUILT_IN, vgpu=replace(BUILT_IN.vgpu, percentage=""))
"""Volcano's configuration without a ConfigMap, which has no resource for a percentage of a card's memory."""


def device_configurations(file: CaseFile) -> dict[str, DevicesConf]:
    """Return the device configurations of a file's cases, by name.

    Raises:
        ConfigError: a configuration is invalid.
    """
    read = {name: parse_devices(text, f"{name}.yaml") for name, text in file.configs.items()}
    return read | {BUILT_IN_NAME: WITHOUT_CONFIG_MAP}


def configuration(case: Case, devices: Mapping[str, DevicesConf]) -> SchedulerConf:
    """Return the configuration from the case's arguments and its device configuration.

    As Volcano does, it takes the first geometry of a MIG card that fits, allows templates and HAMi-core on one Ascend
    chip at a time, and allocates whole cards of nodes whose device plugin shares their memory.
    """
    plugins = [{"name": "deviceshare", "arguments": case.args}]
    conf = parse_conf(json.dumps({"tiers": [{"plugins": plugins}]}), f"args of {case.id}")
    as_volcano = replace(conf, mig_geometry=FIRST_FIT, mixed_chips=True, number_on_shared_nodes=True)
    return replace(as_volcano, devices=devices[case.config])
