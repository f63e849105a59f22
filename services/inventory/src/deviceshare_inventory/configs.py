"""Which configuration holds: the file given at start, else a ConfigMap, else the defaults.

A configuration that cannot be used is reported, and the last good one stays.
"""

from collections.abc import Callable

import msgspec
from deviceshare.conf.scheduler import KEY as SCHEDULER_KEY
from deviceshare.errors import ConfigError, InputError, Problem
from deviceshare.facts import ConfigFact
from deviceshare.objects.lenient import decode_view
from deviceshare.objects.views import ConfigMapObject
from deviceshare_cluster.interface import Change, ChangeType

SCHEDULER_MAP = "volcano-scheduler-configmap"
DEVICE_MAPS = ("volcano-vgpu-device-config", "hami-scheduler-device")
"""The first that exists counts."""
DEVICE_KEY = "device-config.yaml"
DEFAULTS = ConfigFact(name="scheduler", text="", source="defaults")

Check = Callable[[ConfigFact], object]
"""Raises ConfigError for a configuration that cannot be used."""

_decoder = msgspec.json.Decoder(ConfigMapObject)


class Configs:
    """The ConfigMaps that there are, and what follows from them."""

    def __init__(self, file: ConfigFact | None, check: Check) -> None:
        self._file = file
        self._check = check
        self._good = DEFAULTS
        self._maps: dict[tuple[str, str], ConfigFact] = {}
        """By name and namespace, so that sorting finds the one that counts."""

    def begin_list(self) -> None:
        """Forget the ConfigMaps: all that exist will come again."""
        self._maps.clear()

    def stood(self, fact: ConfigFact) -> None:
        """Learn what stood on the bus before: good enough while there is nothing better."""
        if fact.name == "scheduler":
            self._good = fact

    def apply(self, change: Change) -> list[Problem]:
        """Take a ConfigMap and return what is wrong with it; those that configure nothing are ignored."""
        if change.name != SCHEDULER_MAP and change.name not in DEVICE_MAPS:
            return []
        key = (change.name, change.namespace)
        if change.type is ChangeType.DELETED:
            self._maps.pop(key, None)
            return []
        try:
            self._maps[key] = self._read(change)
        except InputError as error:
            if change.name == SCHEDULER_MAP:
                self._maps[key] = self._good
            return [error.problem]
        return []

    def _read(self, change: Change) -> ConfigFact:
        """Return what a ConfigMap says. Raises FormatError, ConfigError."""
        view, _ = decode_view(change.raw, _decoder, "ConfigMap")
        data = view.data or {}
        source = f"ConfigMap {change.namespace}/{change.name}"
        if change.name in DEVICE_MAPS:
            name, key, expected = "devices", DEVICE_KEY, f"the key {DEVICE_KEY}"
        else:
            name, key, expected = (
                "scheduler",
                _scheduler_key(data),
                f"the key {SCHEDULER_KEY}, or one that ends in .conf",
            )
        if key not in data:
            raise ConfigError(source, "data", ", ".join(sorted(data)), expected)
        fact = ConfigFact(name=name, text=data[key], source=source, revision=str(change.revision))
        if name == "scheduler":
            self._check(fact)
        return fact

    def devices(self) -> ConfigFact | None:
        """Return the device plugins' configuration, or None where there is none."""
        for name in DEVICE_MAPS:
            for key in sorted(self._maps):
                if key[0] == name:
                    return self._maps[key]
        return None

    def scheduler(self) -> ConfigFact:
        """Return the scheduler's configuration."""
        if self._file is not None:
            return self._file
        self._good = next((self._maps[key] for key in sorted(self._maps) if key[0] == SCHEDULER_MAP), DEFAULTS)
        return self._good


def _scheduler_key(data: dict[str, str]) -> str:
    if SCHEDULER_KEY in data:
        return SCHEDULER_KEY
    return next((key for key in sorted(data) if key.endswith(".conf")), SCHEDULER_KEY)
