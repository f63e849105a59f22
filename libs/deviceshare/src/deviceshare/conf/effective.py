"""The configuration in effect, from the facts that inventory publishes."""

from msgspec.structs import replace

from deviceshare.conf.device_model import BUILT_IN
from deviceshare.conf.devices import parse_devices
from deviceshare.conf.model import SchedulerConf
from deviceshare.conf.scheduler import default_conf, parse_conf
from deviceshare.model import ConfigError, ConfigFact, Problem

SCHEDULER = "scheduler"
DEVICES = "devices"
"""Names of a :class:`~deviceshare.model.ConfigFact`."""


def scheduler_conf(fact: ConfigFact) -> SchedulerConf:
    """Return a scheduler's configuration; an empty text stands for the defaults. Raises ConfigError."""
    return parse_conf(fact.text, fact.source) if fact.text.strip() else default_conf()


class EffectiveConfiguration:
    """Follows the configuration facts.

    ``conf`` is the configuration in effect, with ``device-config.yaml`` in it; the defaults at the start. ``problems``
    holds, by the name of the fact, why its last version cannot be used; the last good version stays in effect.
    """

    def __init__(self) -> None:
        self.conf = default_conf()
        self.problems: dict[str, Problem] = {}

    def take(self, fact: ConfigFact) -> bool:
        """Take a fact; returns whether the configuration changed. One that cannot be used is in ``problems``."""
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
        """Replace a fact that is gone by the defaults; returns whether the configuration changed."""
        if name == SCHEDULER:
            return self._set(name, replace(default_conf(), devices=self.conf.devices))
        return name == DEVICES and self._set(name, replace(self.conf, devices=BUILT_IN))

    def _set(self, name: str, conf: SchedulerConf) -> bool:
        self.problems.pop(name, None)
        changed, self.conf = conf != self.conf, conf
        return changed
