"""The configuration in effect: the file given at start, else a ConfigMap, else the defaults; and that of the devices.

An unusable text is reported, and the last usable one stays in effect. The scheduler's configuration names the ConfigMap
that holds ``device-config.yaml``.
"""

from typing import NamedTuple

import msgspec
from deviceshare.conf import (
    DEVICES,
    DEVICES_NAME,
    SCHEDULER,
    EffectiveConfiguration,
    SchedulerConf,
    devices,
    parse_devices,
    scheduler,
    scheduler_conf,
)
from deviceshare.model import ConfigError, ConfigFact, InputError, Problem
from deviceshare.objects import ConfigMapObject, decode_view
from deviceshare_cluster.interface import Change, ChangeType

SCHEDULER_MAP = "volcano-scheduler-configmap"
DEFAULTS = ConfigFact(name=SCHEDULER, text="", source="defaults")
_USUAL_MAP = SchedulerConf().geometries_config_map
_DEVICES_KEY = devices.KEY.encode()

Remark = Problem | str
"""What is wrong with a configuration, or a warning about it."""
Place = tuple[str, str]
"""Namespace and name of a ConfigMap."""

_decoder = msgspec.json.Decoder(ConfigMapObject)


class Resolved(NamedTuple):
    """The configurations in effect (``devices`` None: the built-in one), and what to report about each ConfigMap."""

    scheduler: ConfigFact
    devices: ConfigFact | None
    remarks: dict[Place, list[Remark]]


def effective(*facts: ConfigFact) -> SchedulerConf:
    """Return the configuration that facts describe together."""
    configuration = EffectiveConfiguration()
    for fact in facts:
        configuration.take(fact)
    return configuration.conf


class Configs:
    """The ConfigMaps that may configure something; ``file``: the scheduler's configuration given at start."""

    def __init__(self, file: ConfigFact | None) -> None:
        self._file = file
        self._scheduler = DEFAULTS
        self._devices: ConfigFact | None = None
        self._devices_map = _USUAL_MAP
        self._maps: dict[Place, Change] = {}

    def begin_list(self) -> None:
        """Forget the ConfigMaps: all that exist will be delivered again."""
        self._maps.clear()

    def load(self, fact: ConfigFact) -> Problem | None:
        """Use a configuration from CLUSTER until the cluster's own is known.

        Returns the problem of one that cannot be used, such as one that another version of inventory wrote.
        """
        try:
            if fact.name == SCHEDULER:
                scheduler_conf(fact)
                self._scheduler = fact
            elif fact.name == DEVICES:
                parse_devices(fact.text, fact.source)
                self._devices = fact
        except ConfigError as error:
            return error.problem
        return None

    def apply(self, change: Change) -> bool:
        """Apply a change of a ConfigMap; return whether it configures something, or did before."""
        place = (change.namespace, change.name)
        known = self._maps.pop(place, None) is not None
        # The scheduler's configuration may name any ConfigMap with the key later.
        configures = change.name == SCHEDULER_MAP or place == self._devices_map or _DEVICES_KEY in change.raw
        if configures and change.type is not ChangeType.DELETED:
            self._maps[place] = change
        return known or configures

    def resolve(self) -> Resolved:
        """Return the configurations in effect."""
        remarks: dict[Place, list[Remark]] = {}
        conf = self._resolve_scheduler(remarks)
        self._devices_map = conf.geometries_config_map
        self._resolve_devices(remarks)
        return Resolved(self._file or self._scheduler, self._devices, remarks)

    def _resolve_scheduler(self, remarks: dict[Place, list[Remark]]) -> SchedulerConf:
        # The first by namespace, so that the choice does not depend on the order of the list.
        place = next((place for place in sorted(self._maps) if place[1] == SCHEDULER_MAP), None)
        if self._file is not None:
            conf = scheduler_conf(self._file)
            if place is not None:
                remarks[place] = _beside(self._file, conf, self._maps[place])
            return conf
        if place is None:
            self._scheduler = DEFAULTS
        else:
            try:
                fact = _read(self._maps[place], SCHEDULER)
                conf = scheduler_conf(fact)
            except InputError as error:
                remarks[place] = [error.problem]
            else:
                self._scheduler = fact
                remarks[place] = list(conf.warnings)
        return scheduler_conf(self._scheduler)

    def _resolve_devices(self, remarks: dict[Place, list[Remark]]) -> None:
        place = self._devices_map
        change = self._maps.get(place)
        if change is None:
            self._devices = None
            if place != _USUAL_MAP:
                remarks[place] = [_missing(place)]
            return
        try:
            fact = _read(change, DEVICES)
            remarks.setdefault(place, []).extend(parse_devices(fact.text, fact.source).warnings)
        except InputError as error:
            remarks.setdefault(place, []).append(error.problem)
        else:
            self._devices = fact


def _read(change: Change, name: str) -> ConfigFact:
    """Return the configuration that a ConfigMap holds. Raises FormatError, ConfigError."""
    view, _ = decode_view(change.raw, _decoder, "ConfigMap")
    data = view.data or {}
    source = f"ConfigMap {change.namespace}/{change.name}"
    if name == DEVICES:
        key, expected = devices.KEY, f"the key {devices.KEY}"
    else:
        key, expected = _scheduler_key(data), f"the key {scheduler.KEY}, or one that ends in .conf"
    if key not in data:
        raise ConfigError(source, "data", ", ".join(sorted(data)), expected)
    return ConfigFact(name=name, text=data[key], source=f"{source} data[{key}]", revision=str(change.revision))


def _beside(file: ConfigFact, conf: SchedulerConf, change: Change) -> list[Remark]:
    """Return what is to be said of a ConfigMap that the file given at start overrides: nothing if both say the same."""
    overridden = f"ConfigMap {change.namespace}/{change.name} is not in effect: {file.source} (--conf) overrides it"
    try:
        other = scheduler_conf(_read(change, SCHEDULER))
    except InputError as error:
        return [error.problem, overridden]
    same = msgspec.structs.replace(other, warnings=()) == msgspec.structs.replace(conf, warnings=())
    return [] if same else [overridden]


def _scheduler_key(data: dict[str, str]) -> str:
    if scheduler.KEY in data:
        return scheduler.KEY
    return next((key for key in sorted(data) if key.endswith(".conf")), scheduler.KEY)


def _missing(place: Place) -> Problem:
    expected = f"the key {devices.KEY}, since {DEVICES_NAME} names this ConfigMap: the built-in values hold without it"
    return Problem(f"ConfigMap {place[0]}/{place[1]}", "data", "", expected)
