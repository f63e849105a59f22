"""The configurations under which cases were recorded."""

import json
from collections.abc import Mapping

from deviceshare.conf import BUILT_IN, FIRST_FIT, DevicesConf, SchedulerConf, parse_conf, parse_devices
from msgspec.structs import replace

from deviceshare_cli.conformance.cases import BUILT_IN_NAME, Case, CaseFile

WITHOUT_CONFIG_MAP = replace(BUILT_IN, vgpu=replace(BUILT_IN.vgpu, percentage=""))
"""What Volcano takes where there is no ConfigMap: it knows no name for a percentage of a card's memory."""


def device_configurations(file: CaseFile) -> dict[str, DevicesConf]:
    """Return the device configurations that the cases of a file name.

    Raises:
        ConfigError: for one that cannot be used.
    """
    read = {name: parse_devices(text, f"{name}.yaml") for name, text in file.configs.items()}
    return read | {BUILT_IN_NAME: WITHOUT_CONFIG_MAP}


def configuration(case: Case, devices: Mapping[str, DevicesConf]) -> SchedulerConf:
    """Return what the case's arguments and its device configuration say.

    Of the geometries of a MIG card Volcano takes the first that fits; an Ascend chip it lets be cut by templates and
    shared by HAMi-core at the same time; whole cards it gives of nodes whose device plugin shares their memory, too.
    """
    plugins = [{"name": "deviceshare", "arguments": case.args}]
    conf = parse_conf(json.dumps({"tiers": [{"plugins": plugins}]}), f"args of {case.id}")
    as_volcano = replace(conf, mig_geometry=FIRST_FIT, mixed_chips=True, number_on_shared_nodes=True)
    return replace(as_volcano, devices=devices[case.config])
