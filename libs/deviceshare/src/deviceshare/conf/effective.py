"""The configuration in effect, from the facts that inventory publishes."""

from msgspec.structs import replace

from deviceshare.conf.device_sections import BUILT_IN
from deviceshare.conf.devices import parse_devices
from deviceshare.conf.model import SchedulerConf
from deviceshare.conf.scheduler import default_conf, parse_conf
from deviceshare.model import ConfigError, ConfigFact, Problem

SCHEDULER = "scheduler"
DEVICES = "devices"
"""Names of a :class:`~deviceshare.model.ConfigFact`."""


def scheduler_conf(fact: ConfigFact) -> SchedulerConf:
    """Return a scheduler's configuration; an empty text means the defaults. Raises ConfigError."""
    return parse_conf(fact.text, fact.source) if fact.text.strip() else default_conf()


class EffectiveConfiguration:
    """The configuration in effect: the last valid version of each configuration fact.

    ``conf`` includes ``device-config.yaml`` and starts with the defaults. ``problems`` holds the error of the latest
    version by the name of the fact, if that version is invalid.
    """

    def __init__(self) -> None:
        self.conf = default_conf()
        self.problems: dict[str, Problem] = {}

    def take(self, fact: ConfigFact) -> bool:
        """Apply a fact; return whether the configuration changed. The error of an invalid fact is in ``problems``."""
        try:
            if fact.name == SCHEDULER:
                conf = replace(scheduler_conf(fact), devices=self.conf.devices)
            elif fact.name == DEVICES:
                conf = replace(self.conf, devices=parse_devices(fact.text, fact.source))
            else:
                return False
        except ConfigError as error:
            self.problems[fact.name] = error.problem
            return False
        return self._set(fact.name, conf)

    def drop(self, name: str) -> bool:
        """Replace a deleted fact by the defaults; return whether the configuration changed."""
        if name == SCHEDULER:
            return self._set(name, replace(default_conf(), devices=self.conf.devices))
        return name == DEVICES and self._set(name, replace(self.conf, devices=BUILT_IN))

    def _set(self, name: str, conf: SchedulerConf) -> bool:
        self.problems.pop(name, None)
        changed, self.conf = conf != self.conf, conf
        return changed
