"""Volcano's configuration: ``volcano-scheduler.conf`` and ``device-config.yaml`` as values.

Reading order: :mod:`.model` and :mod:`.device_sections` (the values), :mod:`.scheduler` and :mod:`.devices` (reading
the two files; device families read their sections), :mod:`.known` (the names that they may hold), :mod:`.positions`
(lines and columns for messages), :mod:`.effective` (the configuration in effect, from facts).
"""

from deviceshare.conf.device_sections import BUILT_IN, DevicesConf, DeviceSection, add_device_section
from deviceshare.conf.devices import parse_devices
from deviceshare.conf.effective import DEVICES, SCHEDULER, EffectiveConfiguration, scheduler_conf
from deviceshare.conf.known import (
    DEVICES_NAME,
    EVALUATED_PLUGINS,
    PLUGINS,
    STARVATION_SECONDS,
    TYPE_PARTS,
    WAITING_TIME,
    WEIGHT,
    add_family_flag,
    did_you_mean,
)
from deviceshare.conf.model import FEWEST, FIRST_FIT, LOWEST, Extensions, SchedulerConf, matching, tiers
from deviceshare.conf.node_plugins import ALL_PREDICATES, BINPACK, NODEORDER, NodeOrder, Predicates, Proportion
from deviceshare.conf.positions import Origin, YamlText
from deviceshare.conf.reading import ConfField
from deviceshare.conf.scheduler import default_conf, parse_conf
from deviceshare.conf.times import seconds_of
from deviceshare.conf.yaml_loader import YAML_ERRORS, YamlLoader

__all__ = [
    "ALL_PREDICATES",
    "BINPACK",
    "BUILT_IN",
    "DEVICES",
    "DEVICES_NAME",
    "EVALUATED_PLUGINS",
    "FEWEST",
    "FIRST_FIT",
    "LOWEST",
    "NODEORDER",
    "PLUGINS",
    "SCHEDULER",
    "STARVATION_SECONDS",
    "TYPE_PARTS",
    "WAITING_TIME",
    "WEIGHT",
    "YAML_ERRORS",
    "ConfField",
    "DeviceSection",
    "DevicesConf",
    "EffectiveConfiguration",
    "Extensions",
    "NodeOrder",
    "Origin",
    "Predicates",
    "Proportion",
    "SchedulerConf",
    "YamlLoader",
    "YamlText",
    "add_device_section",
    "add_family_flag",
    "default_conf",
    "did_you_mean",
    "matching",
    "parse_conf",
    "parse_devices",
    "scheduler_conf",
    "seconds_of",
    "tiers",
]
