"""``volcano-scheduler.conf``: actions, tiers of plugins, and the arguments of ``deviceshare``.

A wrong value ends the start with one line that says what to change; a name that nobody knows is a warning, since newer
Volcanos may know it. Source: volcano-sh/volcano (pkg/scheduler/conf, pkg/scheduler/plugins/deviceshare) and the user
guides.
"""

import re
from typing import Any

from deviceshare.conf import known
from deviceshare.conf.document import as_text, read_document
from deviceshare.conf.model import BEST_FIT, FIRST_FIT, STARVATION, Extensions, Plugin, SchedulerConf, tiers
from deviceshare.conf.node_arguments import read_binpack, read_nodeorder, read_predicates
from deviceshare.conf.node_plugins import BINPACK, NODEORDER, PREDICATES
from deviceshare.conf.reading import LARGEST, Reader
from deviceshare.conf.times import seconds_of
from deviceshare.model import Labels

KEY = "volcano-scheduler.conf"
"""The key of the ConfigMap's data."""
POLICIES = ("", "binpack", "spread")
MIG_GEOMETRIES = (BEST_FIT, FIRST_FIT)

_USUAL = tiers("priority gang conformance", "drf predicates proportion")
_DEVICESHARE = "deviceshare"
_LARGEST_WEIGHT = 1_000_000
_EXPECTED = f"actions and tiers of plugins, a list of plugins, or a ConfigMap with the key {KEY}"
_OBJECT_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_LEAST_FACTOR, _USUAL_FACTOR = 1.0, 1.2
_RULES = "a list of rules, each the labels and their values that a pod has, such as [{workloadType: training}]"


def default_conf() -> SchedulerConf:
    """Return what holds without any configuration: every device family is on, and Volcano's usual order of work."""
    return SchedulerConf(families=frozenset(known.family_flags()), tiers=_USUAL)


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


class _Reader(Reader):
    """Reads one configuration, collecting arguments."""

    def __init__(self, source: str) -> None:
        super().__init__(source)
        self.arguments: dict[str, dict[str, str]] = {}
        self.tiers: list[tuple[Plugin, ...]] = []
        self.values: dict[str, tuple[Any, str]] = {}
        """Arguments of deviceshare: the value as YAML has it, and its path."""
        self.of_nodes: dict[str, dict[str, tuple[Any, str]]] = {PREDICATES: {}, NODEORDER: {}, BINPACK: {}}
        """Likewise those of the plugins that look at nodes."""

    def read(self, text: str) -> SchedulerConf:
        document = read_document(text, self.source, KEY, _EXPECTED, self.warnings)
        is_bare = isinstance(document, list)
        if is_bare:  # the plugins of one tier
            document = {"tiers": [{"plugins": document}]}
        if not isinstance(document, dict):
            raise self.error("$", document, _EXPECTED)
        document = self.mapping("$", document)
        self.keys("", document, known.SECTIONS)
        actions = self.read_actions(document.get("actions"))
        self.read_tiers(document.get("tiers"), is_bare)
        families = frozenset(flag for flag in known.family_flags() if self.flag(flag))
        if _DEVICESHARE not in self.arguments and not families:
            self.warn("tiers", "the plugin deviceshare is not configured: no device family is on")
        elif not families:
            self.warn("deviceshare", f"no device family is on: set one of {', '.join(known.family_flags())} to true")
        return SchedulerConf(
            actions=actions or SchedulerConf().actions,
            plugins=tuple(self.arguments),
            tiers=tuple(self.tiers),
            starvation=self.starvation(),
            waiting_time=self.waiting_time(),
            overcommit=self.overcommit(),
            predicates=read_predicates(
                self, self.of_nodes[PREDICATES], PREDICATES not in self.arguments or self.does(PREDICATES, "Predicate")
            ),
            nodeorder=read_nodeorder(self, self.of_nodes[NODEORDER]) if self.does(NODEORDER, "NodeOrder") else None,
            binpack=read_binpack(self, self.of_nodes[BINPACK]) if self.does(BINPACK, "NodeOrder") else None,
            families=families,
            policy=self.word(known.POLICY, POLICIES, ""),
            weight=self.weight() if self.does(_DEVICESHARE, "NodeOrder") else 0,
            node_lock=self.flag(known.NODE_LOCK),
            mig_geometry=self.word(known.MIG_GEOMETRY, MIG_GEOMETRIES, BEST_FIT),
            mixed_chips=self.flag(known.MIXED_CHIPS),
            number_on_shared_nodes=self.flag(known.NUMBER_ON_SHARED),
            exclusive_rules=self.exclusive_rules(),
            extensions=self.extensions(),
            geometries_config_map=self.geometries_config_map(),
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
        found = tuple(name for name in actions if self.is_known("actions", name, known.ACTIONS, "action"))
        for name in found:
            self.is_evaluated("actions", name, known.EVALUATED_ACTIONS, "action")
        return found

    def is_evaluated(self, field: str, name: str, evaluated: frozenset[str], noun: str) -> None:
        if name not in evaluated:
            self.warn(field, f"the {noun} '{name}' is not evaluated: nothing is done of what it does in Volcano")

    def read_tiers(self, value: Any, is_bare: bool) -> None:
        for number, tier in enumerate(self.items("tiers", value)):
            path = f"tiers[{number}]"
            entries = self.mapping(path, tier)
            self.keys(path, entries, ("plugins",))
            plugins = enumerate(self.items(f"{path}.plugins", entries.get("plugins")))
            self.tiers.append(
                tuple(
                    self.read_plugin(f"[{index}]" if is_bare else f"{path}.plugins[{index}]", plugin)
                    for index, plugin in plugins
                )
            )
            found = {plugin.name: plugin for plugin in self.tiers[-1]}
            if "proportion" in found and "drf" in found and found["drf"].hierarchy:
                self.warn(path, "Volcano refuses proportion beside drf with enableHierarchy; the first listed counts")

    def read_plugin(self, path: str, value: Any) -> Plugin:
        plugin = self.mapping(path, value)
        name = plugin.get("name")
        if not isinstance(name, str) or not name:
            raise self.error(f"{path}.name", name, "the name of a plugin")
        if self.is_known(f"{path}.name", name, known.PLUGINS, "plugin"):
            self.is_evaluated(f"{path}.name", name, known.EVALUATED_PLUGINS, "plugin")
        if name in self.arguments:
            self.warn(path, f"the plugin {name} stands here again: the later arguments count")
        self.keys(path, {key: value for key, value in plugin.items() if key not in known.SWITCHES}, known.PLUGIN_KEYS)
        arguments = self.mapping(f"{path}.arguments", plugin.get("arguments") or {})
        self.arguments.setdefault(name, {}).update({key: as_text(argument) for key, argument in arguments.items()})
        for key, argument in arguments.items():
            field = f"{path}.arguments[{key}]"
            if name in self.of_nodes:
                self.of_nodes[name][key] = (argument, field)
            if name == _DEVICESHARE:
                self.is_known(f"{path}.arguments", key, (*known.family_flags(), *known.ARGUMENTS), "argument")
                self.values[key] = (argument, field)
            elif name == "predicates" and key in known.OLD_FLAGS:
                self.values.setdefault(known.OLD_FLAGS[key], (argument, field))
            elif key in (known.WAITING_TIME, known.OVERCOMMIT_FACTOR):
                self.values[key] = (argument, field)
        switches = [key for key in plugin if key in known.SWITCHES]
        on = {known.SWITCHES[key]: self.truth(f"{path}.{key}", plugin[key]) for key in switches}
        off = frozenset(function for function, is_on in on.items() if not is_on)
        return Plugin(name, off, hierarchy=on.get(known.HIERARCHY, False))

    def does(self, name: str, function: str) -> bool:
        """Return whether a plugin is configured and this function of it is on."""
        return any(plugin.name == name and function not in plugin.off for tier in self.tiers for plugin in tier)

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
        return self.truth(field, value)

    def extensions(self) -> Extensions:
        """Return what goes beyond Volcano: all that is not turned off."""
        return Extensions(
            **{field: name not in self.values or self.flag(name) for name, field in known.EXTENSIONS.items()}
        )

    def word(self, name: str, choices: tuple[str, ...], default: str) -> str:
        value, field = self.values.get(name, (None, ""))
        return self.choice(field, value, choices, default)

    def weight(self) -> int:
        value, field = self.values.get(known.WEIGHT, (None, ""))
        return self.whole(field, value, 0, _LARGEST_WEIGHT) if as_text(value).strip() else 0

    def starvation(self) -> float:
        value, field = self.values.get(known.STARVATION_SECONDS, (None, ""))
        return float(self.whole(field, value, 0, LARGEST)) if as_text(value).strip() else STARVATION

    def waiting_time(self) -> float | None:
        value, field = self.values.get(known.WAITING_TIME, (None, ""))
        if value is None or known.SLA not in self.arguments:
            return None
        waiting = seconds_of(as_text(value))
        if waiting is None or waiting <= 0:
            raise self.error(field, value, "a time such as 90s, 30m or 1h30m")
        return waiting

    def overcommit(self) -> float:
        if known.OVERCOMMIT not in self.arguments:
            return 0.0
        value, field = self.values.get(known.OVERCOMMIT_FACTOR, (_USUAL_FACTOR, ""))
        try:
            factor = float(as_text(value))
        except ValueError:
            factor = 0.0
        if not _LEAST_FACTOR <= factor < _LARGEST_WEIGHT:
            raise self.error(field, value, f"a number from {_LEAST_FACTOR:g}, such as {_USUAL_FACTOR}")
        return factor

    def geometries_config_map(self) -> tuple[str, str]:
        namespace, name = SchedulerConf().geometries_config_map
        return (
            self.object_name(known.DEVICES_NAMESPACE, namespace, "a namespace"),
            self.object_name(known.DEVICES_NAME, name, "a ConfigMap"),
        )

    def object_name(self, argument: str, default: str, what: str) -> str:
        value, field = self.values.get(argument, (None, ""))
        name = as_text(value).strip()
        if name and not _OBJECT_NAME.fullmatch(name):
            raise self.error(field, value, f"the name of {what}")
        return name or default

    def exclusive_rules(self) -> tuple[Labels, ...]:
        """Return the rules, each once, the labels of each sorted by name."""
        value, field = self.values.get(known.EXCLUSIVE_RULES, (None, ""))
        if value is not None and not isinstance(value, list):
            raise self.error(field, value, _RULES)
        rules = [self.exclusive_rule(f"{field}[{number}]", rule) for number, rule in enumerate(value or [])]
        return tuple(dict.fromkeys(rules))

    def exclusive_rule(self, field: str, value: Any) -> Labels:
        if not isinstance(value, dict) or not value:
            raise self.error(field, value, "labels and their values, at least one: a rule without any means no pod")
        labels = self.mapping(field, value)
        for name, wanted in labels.items():
            if not isinstance(wanted, str):  # YAML makes other values of on, 010 and the like
                raise self.error(f"{field}[{name}]", wanted, "the value of a label as text, in quotes")
        return tuple(sorted(labels.items()))
