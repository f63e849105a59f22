"""The configuration that holds, as inventory's facts tell it."""

from msgspec.structs import replace

from deviceshare.conf.device_model import BUILT_IN
from deviceshare.conf.devices import parse_devices
from deviceshare.conf.model import SchedulerConf
from deviceshare.conf.scheduler import default_conf, parse_conf
from deviceshare.model import ConfigError, ConfigFact

SCHEDULER = "scheduler"
DEVICES = "devices"
"""What a :class:`~deviceshare.model.ConfigFact` may be called."""


def scheduler_conf(fact: ConfigFact) -> SchedulerConf:
    """Return what a scheduler's configuration says; an empty text stands for the defaults. Raises ConfigError."""
    return parse_conf(fact.text, fact.source) if fact.text.strip() else default_conf()


class EffectiveConfiguration:
    """Follows the facts. ``conf`` is what they amount to, ``device-config.yaml`` in it; the defaults at the start."""

    def __init__(self) -> None:
        self.conf = default_conf()

    def take(self, fact: ConfigFact) -> bool:
        """Take in a fact; returns whether another configuration holds now.

        One that cannot be used leaves the last good one: inventory tells the user.
        """
        try:
            if fact.name == SCHEDULER:
                return self._set(replace(scheduler_conf(fact), devices=self.conf.devices))
            if fact.name == DEVICES:
                return self._set(replace(self.conf, devices=parse_devices(fact.text, fact.source)))
        except ConfigError:
            pass
        return False

    def drop(self, name: str) -> bool:
        """Hear that a fact is gone, the defaults hold in its place; returns whether another configuration holds now."""
        if name == SCHEDULER:
            return self._set(replace(default_conf(), devices=self.conf.devices))
        return name == DEVICES and self._set(replace(self.conf, devices=BUILT_IN))

    def _set(self, conf: SchedulerConf) -> bool:
        changed, self.conf = conf != self.conf, conf
        return changed
