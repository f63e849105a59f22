"""Volcano's configuration: ``volcano-scheduler.conf`` and ``device-config.yaml`` as values.

Reading order: :mod:`.model` and :mod:`.device_sections` (the values), :mod:`.scheduler` and :mod:`.devices` (reading
the two files; device families read their sections), :mod:`.known` (the names that they may hold), :mod:`.positions`
(lines and columns for messages), :mod:`.effective` (the configuration in effect, from facts).
"""

from deviceshare.conf.device_sections import (
    BUILT_IN as BUILT_IN,
    DevicesConf as DevicesConf,
    DeviceSection as DeviceSection,
    add_device_section as add_device_section,
)
from deviceshare.conf.devices import parse_devices as parse_devices
from deviceshare.conf.effective import (
    DEVICES as DEVICES,
    SCHEDULER as SCHEDULER,
    EffectiveConfiguration as EffectiveConfiguration,
    scheduler_conf as scheduler_conf,
)
from deviceshare.conf.known import (
    DEVICES_NAME as DEVICES_NAME,
    EVALUATED_PLUGINS as EVALUATED_PLUGINS,
    PLUGINS as PLUGINS,
    STARVATION_SECONDS as STARVATION_SECONDS,
    TYPE_PARTS as TYPE_PARTS,
    WAITING_TIME as WAITING_TIME,
    WEIGHT as WEIGHT,
    add_family_flag as add_family_flag,
    did_you_mean as did_you_mean,
)
from deviceshare.conf.model import (
    FEWEST as FEWEST,
    FIRST_FIT as FIRST_FIT,
    DeviceScope as DeviceScope,
    Extensions as Extensions,
    SchedulerConf as SchedulerConf,
    matching as matching,
    tiers as tiers,
)
from deviceshare.conf.node_plugins import (
    ALL_PREDICATES as ALL_PREDICATES,
    BINPACK as BINPACK,
    NODEORDER as NODEORDER,
    NodeOrder as NodeOrder,
    Predicates as Predicates,
    Proportion as Proportion,
)
from deviceshare.conf.positions import Origin as Origin, YamlText as YamlText
from deviceshare.conf.reading import ConfField as ConfField
from deviceshare.conf.scheduler import default_conf as default_conf, parse_conf as parse_conf
from deviceshare.conf.times import seconds_of as seconds_of
from deviceshare.conf.yaml_loader import YAML_ERRORS as YAML_ERRORS, YamlLoader as YamlLoader
