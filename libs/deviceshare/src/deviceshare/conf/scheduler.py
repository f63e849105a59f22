"""``volcano-scheduler.conf``: actions, tiers of plugins, and the arguments of ``deviceshare``.

A wrong value ends the start with one line that says what to change; a name that nobody knows is a warning, since newer
Volcanos may know it. Source: volcano-sh/volcano (pkg/scheduler/conf, pkg/scheduler/plugins/deviceshare) and the user
guides.
"""

from typing import Any

from deviceshare.conf import known
from deviceshare.conf.document import as_text, read_document
from deviceshare.conf.model import SchedulerConf
from deviceshare.errors import ConfigError
from deviceshare.families import flags

POLICIES = ("", "binpack", "spread")

_TRUTH = {word: value for value, words in ((True, "1 t true"), (False, "0 f false")) for word in words.split()}
_LARGEST_WEIGHT = 1_000_000


def default_conf() -> SchedulerConf:
    """Return what holds without any configuration: every device family is on."""
    return SchedulerConf(families=frozenset(flags()))


def parse_conf(text: str, source: str) -> SchedulerConf:
    """Return what a configuration says.

    Args:
        text: a ``volcano-scheduler.conf``, a ConfigMap manifest that holds one, or a bare list of plugins as the guides
            show excerpts. Booleans and numbers may be strings.
        source: where it comes from, for messages (``File conf.yaml``, ``ConfigMap volcano-system/x``).

    Raises:
        ConfigError: names the source, the field, its value and what would be right.
    """
    return _Reader(source).read(text)


class _Reader:
    """Reads one configuration, collecting arguments and warnings."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.warnings: list[str] = []
        self.arguments: dict[str, dict[str, str]] = {}
        self.values: dict[str, tuple[Any, str]] = {}
        """Arguments of deviceshare: the value as YAML has it, and its path."""

    def read(self, text: str) -> SchedulerConf:
        document, is_bare = read_document(text, self.source, self.warnings)
        for key in document:
            self.warn_unknown("", key, known.SECTIONS, "key")
        actions = self.read_actions(document.get("actions"))
        self.read_tiers(document.get("tiers"), is_bare)
        families = frozenset(flag for flag in flags() if self.flag(flag))
        if "deviceshare" not in self.arguments and not families:
            self.warn("tiers", "the plugin deviceshare is not configured: no device family is on")
        elif not families:
            self.warn("deviceshare", f"no device family is on: set one of {', '.join(flags())} to true")
        return SchedulerConf(
            actions=actions or SchedulerConf().actions,
            plugins=tuple(self.arguments),
            families=families,
            policy=self.policy(),
            weight=self.weight(),
            node_lock=self.flag(known.NODE_LOCK),
            arguments=self.arguments,
            configurations=self.read_configurations(document.get("configurations")),
            warnings=tuple(self.warnings),
        )

    def read_actions(self, value: Any) -> tuple[str, ...]:
        if value is None:
            return ()
        names = value.split(",") if isinstance(value, str) else value
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise self.error("actions", value, 'names separated by commas, such as "enqueue, allocate, backfill"')
        actions = [name.strip() for name in names if name.strip()]
        return tuple(name for name in actions if self.warn_unknown("actions", name, known.ACTIONS, "action"))

    def read_tiers(self, value: Any, is_bare: bool) -> None:
        for number, tier in enumerate(self.items("tiers", value)):
            path = f"tiers[{number}]"
            for key in self.mapping(path, tier):
                self.warn_unknown(path, key, ("plugins",), "key")
            for index, plugin in enumerate(self.items(f"{path}.plugins", tier.get("plugins"))):
                self.read_plugin(f"[{index}]" if is_bare else f"{path}.plugins[{index}]", plugin)

    def read_plugin(self, path: str, value: Any) -> None:
        plugin = self.mapping(path, value)
        name = plugin.get("name")
        if not isinstance(name, str) or not name:
            raise self.error(f"{path}.name", name, "the name of a plugin")
        self.warn_unknown(f"{path}.name", name, known.PLUGINS, "plugin")
        if name in self.arguments:
            self.warn(path, f"the plugin {name} stands here again: the later arguments count")
        for key in plugin:
            if not known.SWITCH.fullmatch(key):
                self.warn_unknown(path, key, known.PLUGIN_KEYS, "key")
        arguments = self.mapping(f"{path}.arguments", plugin.get("arguments") or {})
        self.arguments.setdefault(name, {}).update({key: as_text(argument) for key, argument in arguments.items()})
        for key, argument in arguments.items():
            field = f"{path}.arguments[{key}]"
            if name == "deviceshare":
                self.warn_unknown(f"{path}.arguments", key, (*flags(), *known.ARGUMENTS), "argument")
                self.values[key] = (argument, field)
            elif name == "predicates" and key in known.OLD_FLAGS:
                self.values.setdefault(known.OLD_FLAGS[key], (argument, field))

    def read_configurations(self, value: Any) -> dict[str, dict[str, str]]:
        configurations = {}
        for index, item in enumerate(self.items("configurations", value)):
            path = f"configurations[{index}]"
            entry = self.mapping(path, item)
            arguments = self.mapping(f"{path}.arguments", entry.get("arguments") or {})
            configurations[as_text(entry.get("name"))] = {key: as_text(each) for key, each in arguments.items()}
        return configurations

    def flag(self, name: str) -> bool:
        value, field = self.values.get(name, (None, ""))
        if value is None:
            return False
        truth = _TRUTH.get(as_text(value).strip().lower())
        if truth is None:
            raise self.error(field, value, f"one of true, false{known.did_you_mean(as_text(value), ('true', 'false'))}")
        return truth

    def policy(self) -> str:
        value, field = self.values.get(known.POLICY, (None, ""))
        name = as_text(value).strip()
        if name not in POLICIES:
            hint = known.did_you_mean(name, POLICIES)
            raise self.error(field, value, f"one of {', '.join(filter(None, POLICIES))}, or nothing{hint}")
        return name

    def weight(self) -> int:
        value, field = self.values.get(known.WEIGHT, (None, ""))
        text = as_text(value).strip() or "0"
        if not (text.isascii() and text.isdecimal() and len(text) < 10 and int(text) <= _LARGEST_WEIGHT):
            raise self.error(field, value, f"a whole number from 0 to {_LARGEST_WEIGHT}")
        return int(text)

    def items(self, field: str, value: Any) -> list[Any]:
        if value is None:
            return []
        if not isinstance(value, list):
            raise self.error(field, value, "a list")
        return value

    def mapping(self, field: str, value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self.error(field, value, "names with values")
        return {str(key): entry for key, entry in value.items()}

    def error(self, field: str, value: Any, expected: str) -> ConfigError:
        return ConfigError(self.source, field, as_text(value), expected)

    def warn(self, field: str, message: str) -> None:
        self.warnings.append(f"{self.source}: {field}: {message}")

    def warn_unknown(self, field: str, name: str, names: tuple[str, ...], noun: str) -> bool:
        """Return whether the name is known; if not, say so with the nearest known one and all others."""
        if name in names:
            return True
        hint = known.did_you_mean(name, names)
        self.warn(field or name, f"unknown {noun} '{name}' is ignored{hint}; known: {', '.join(names)}")
        return False
