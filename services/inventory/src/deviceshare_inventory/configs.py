"""Which configuration holds: the file given at start, else a ConfigMap, else the defaults; and that of the devices.

A text that cannot be used is told of, and the last good one stays. The scheduler's configuration says which ConfigMap
holds ``device-config.yaml``.
"""

from typing import NamedTuple

import msgspec
from deviceshare.conf import (
    DEVICES,
    DEVICES_NAME,
    SCHEDULER,
    SchedulerConf,
    default_conf,
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
"""What is wrong with a configuration, or a warning of it."""
Place = tuple[str, str]
"""Namespace and name of a ConfigMap."""

_decoder = msgspec.json.Decoder(ConfigMapObject)


class Resolved(NamedTuple):
    """What holds: the scheduler's configuration, that of the devices (None: the built-in one), what is to be told."""

    scheduler: ConfigFact
    devices: ConfigFact | None
    remarks: dict[Place, list[Remark]]


class Configs:
    """The ConfigMaps that may configure something, and what follows from them."""

    def __init__(self, file: ConfigFact | None) -> None:
        self._file = file
        self._scheduler = DEFAULTS
        self._devices: ConfigFact | None = None
        self._devices_map = _USUAL_MAP
        self._maps: dict[Place, Change] = {}

    def begin_list(self) -> None:
        """Forget the ConfigMaps: all that exist will come again."""
        self._maps.clear()

    def stood(self, fact: ConfigFact) -> None:
        """Learn what stood on the bus before: good enough while there is nothing better."""
        if fact.name == SCHEDULER:
            self._scheduler = fact
        elif fact.name == DEVICES:
            self._devices = fact

    def apply(self, change: Change) -> bool:
        """Take a ConfigMap; returns whether it may configure something, now or before."""
        place = (change.namespace, change.name)
        known = self._maps.pop(place, None) is not None
        # Any ConfigMap with the key may be named later.
        configures = change.name == SCHEDULER_MAP or place == self._devices_map or _DEVICES_KEY in change.raw
        if configures and change.type is not ChangeType.DELETED:
            self._maps[place] = change
        return known or configures

    def resolve(self) -> Resolved:
        """Return what holds now."""
        remarks: dict[Place, list[Remark]] = {}
        conf = self._resolve_scheduler(remarks)
        self._devices_map = conf.geometries_config_map
        self._resolve_devices(remarks)
        return Resolved(self._file or self._scheduler, self._devices, remarks)

    def _resolve_scheduler(self, remarks: dict[Place, list[Remark]]) -> SchedulerConf:
        if self._file is not None:
            return scheduler_conf(self._file)
        # By name, so that the same one counts each time.
        place = next((place for place in sorted(self._maps) if place[1] == SCHEDULER_MAP), None)
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
        try:
            return scheduler_conf(self._scheduler)
        except ConfigError:  # written by another version of us
            self._scheduler = DEFAULTS
            return default_conf()

    def _resolve_devices(self, remarks: dict[Place, list[Remark]]) -> None:
        place = self._devices_map
        change = self._maps.get(place)
        if change is None:
            self._devices = None
            if place != _USUAL_MAP:
                remarks[place] = [_not_there(place)]
            return
        try:
            fact = _read(change, DEVICES)
            remarks.setdefault(place, []).extend(parse_devices(fact.text, fact.source).warnings)
        except InputError as error:
            remarks.setdefault(place, []).append(error.problem)
        else:
            self._devices = fact


def _read(change: Change, name: str) -> ConfigFact:
    """Return what a ConfigMap says. Raises FormatError, ConfigError."""
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


def _scheduler_key(data: dict[str, str]) -> str:
    if scheduler.KEY in data:
        return scheduler.KEY
    return next((key for key in sorted(data) if key.endswith(".conf")), scheduler.KEY)


def _not_there(place: Place) -> Problem:
    expected = f"the key {devices.KEY}, since {DEVICES_NAME} names this ConfigMap: the built-in values hold without it"
    return Problem(f"ConfigMap {place[0]}/{place[1]}", "data", "", expected)
