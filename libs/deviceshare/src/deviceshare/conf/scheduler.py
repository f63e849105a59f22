"""``volcano-scheduler.conf``: actions, tiers of plugins, and the arguments of ``deviceshare``.

An invalid value is an error; an unknown name is a warning, since newer versions of Volcano may know it. Source:
volcano-sh/volcano (pkg/scheduler/conf, pkg/scheduler/plugins/deviceshare) and the user guides.
"""

import re

from deviceshare.conf import known
from deviceshare.conf.model import (
    BEST_FIT,
    FEWEST,
    FIRST_FIT,
    LOWEST,
    PREEMPTION_TIMEOUT,
    STARVATION,
    DeviceScope,
    Extensions,
    Plugin,
    SchedulerConf,
    tiers,
)
from deviceshare.conf.node_plugins import (
    BINPACK,
    LARGEST_WEIGHT,
    NODEORDER,
    PREDICATES,
    read_binpack,
    read_nodeorder,
    read_predicates,
)
from deviceshare.conf.reading import LARGEST, ConfField, read_root
from deviceshare.conf.times import seconds_of
from deviceshare.model import Labels, as_text
from deviceshare.policies import CARD_POLICIES

KEY = "volcano-scheduler.conf"
"""The key of the ConfigMap's data."""
MIG_GEOMETRIES = (BEST_FIT, FIRST_FIT)

_USUAL = tiers("priority gang conformance", "drf predicates proportion")
_DEVICESHARE = "deviceshare"
_PACKING = ("binpack", "fragmentation")
"""The policies that leave nodes empty, against which the score ``leastrequested`` works."""
_EXPECTED = f"actions and tiers of plugins, a list of plugins, or a ConfigMap with the key {KEY}"
_LABEL_NAME = re.compile(r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-\w.]{0,61}[A-Za-z0-9])?", re.ASCII)
_OBJECT_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_MIN_FACTOR, _USUAL_FACTOR = 1.0, 1.2
_RULES = "a list of rules, each the labels and their values that a pod has, such as [{workloadType: training}]"

_RULE = "a rule without labels matches no pod"
_SCOPES = "guarded, exclusive, or nodes with their labels, such as {nodes: {example.com/scheduler: deviceshare}}"


def default_conf() -> SchedulerConf:
    """Return the default configuration: all device families enabled, with Volcano's default tiers."""
    return SchedulerConf(families=frozenset(known.family_flags()), tiers=_USUAL)


def parse_conf(text: str, source: str) -> SchedulerConf:
    """Return a configuration.

    Args:
        text: a ``volcano-scheduler.conf``, a ConfigMap manifest with one, or a list of plugins as excerpts in guides.
            Booleans and numbers may be strings.
        source: the source of the text, for messages (``File conf.yaml``, ``ConfigMap volcano-system/x``).

    Raises:
        ConfigError: names the source with line and column, the field, its value and the expected value.
    """
    return _Reader(read_root(text, source, KEY, _EXPECTED)).read()


class _Reader:
    def __init__(self, root: ConfField) -> None:
        self.root = root
        self.arguments: dict[str, dict[str, str]] = {}
        self.tiers: list[tuple[Plugin, ...]] = []
        self.values: dict[str, ConfField] = {}
        """Arguments of deviceshare."""
        self.of_nodes: dict[str, dict[str, ConfField]] = {PREDICATES: {}, NODEORDER: {}, BINPACK: {}}
        """Arguments of the plugins that filter or score nodes."""

    def read(self) -> SchedulerConf:
        root = self.root
        is_bare = isinstance(root.value, list)
        if not is_bare:
            root.mapping(_EXPECTED)
            root = root.section(known.SECTIONS)
        actions = self.read_actions(root["actions"])
        if is_bare:  # the plugins of one tier
            self.read_tier(root["tiers"].entry(0), root.items())
        for tier in root["tiers"].items():
            self.read_tier(tier, tier.section(("plugins",))["plugins"].items())
        does = SchedulerConf(tiers=tuple(self.tiers)).does
        policy = self.argument(known.POLICY).word(tuple(CARD_POLICIES), "")
        weight = self.weight() if does(_DEVICESHARE, "NodeOrder") else 0
        if policy and not weight:
            self.argument(known.POLICY).warn(
                f"the policy {policy} has the weight 0: among nodes it only breaks ties; set {known.WEIGHT}, such as 10"
            )
        nodeorder = read_nodeorder(self.of_nodes[NODEORDER]) if does(NODEORDER, "NodeOrder") else None
        if weight and policy in _PACKING and nodeorder is not None and nodeorder.least_requested >= weight:
            self.argument(known.POLICY).warn(
                f"the policy {policy} has the weight {weight}, and leastrequested, which prefers free nodes, "
                f"{nodeorder.least_requested}: set leastrequested.weight of nodeorder to 0, or a larger {known.WEIGHT}"
            )
        families = frozenset(flag for flag in known.family_flags() if self.flag(flag))
        dra = self.flag(known.RESOURCE_CLAIMS)
        if _DEVICESHARE not in self.arguments and not families:
            root["tiers"].warn("the plugin deviceshare is not configured: no device family is on")
        elif not families and not dra:
            root[_DEVICESHARE].warn(f"no device family is on: set one of {', '.join(known.family_flags())} to true")
        namespace, name = SchedulerConf().geometries_config_map
        predicates = PREDICATES not in self.arguments or does(PREDICATES, "Predicate")
        return SchedulerConf(
            actions=actions or SchedulerConf().actions,
            plugins=tuple(self.arguments),
            tiers=tuple(self.tiers),
            starvation=self.seconds(known.STARVATION_SECONDS, STARVATION),
            waiting_time=self.waiting_time(),
            overcommit=self.overcommit(),
            ancestor_reclaim_level=self.argument(known.ANCESTOR_RECLAIM_LEVEL).number(default=0),
            predicates=read_predicates(self.of_nodes[PREDICATES], predicates),
            dra=dra,
            device_scope=self.device_scope(),
            nodeorder=nodeorder,
            binpack=read_binpack(self.of_nodes[BINPACK]) if does(BINPACK, "NodeOrder") else None,
            families=families,
            policy=policy,
            weight=weight,
            node_lock=self.flag(known.NODE_LOCK),
            mig_geometry=self.argument(known.MIG_GEOMETRY).word(MIG_GEOMETRIES, BEST_FIT),
            mixed_chips=self.flag(known.MIXED_CHIPS),
            number_on_shared_nodes=self.flag(known.NUMBER_ON_SHARED),
            type_parts=self.flag(known.TYPE_PARTS),
            exclusive_rules=self.exclusive_rules(),
            preemption_timeout=self.seconds(known.PREEMPTION_TIMEOUT, PREEMPTION_TIMEOUT),
            preemption_delay=self.seconds(known.PREEMPTION_DELAY, 0.0),
            preemption_victims=self.argument(known.PREEMPTION_VICTIMS).word((FEWEST, LOWEST), FEWEST),
            extensions=Extensions(
                **{field: flag not in self.values or self.flag(flag) for flag, field in known.EXTENSIONS.items()}
            ),
            geometries_config_map=(
                self.object_name(known.DEVICES_NAMESPACE, namespace, "a namespace"),
                self.object_name(known.DEVICES_NAME, name, "a ConfigMap"),
            ),
            arguments=self.arguments,
            configurations=self.read_configurations(root["configurations"]),
            warnings=tuple(warning.text for warning in root.source.warnings),
        )

    def read_actions(self, field: ConfField) -> tuple[str, ...]:
        names = field.value.split(",") if isinstance(field.value, str) else field.value
        if names is None:
            return ()
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise field.error('names separated by commas, such as "enqueue, allocate, backfill"')
        actions = [name.strip() for name in names if name.strip()]
        found = tuple(name for name in actions if field.is_known(name, known.ACTIONS, "action"))
        for name in found:
            _warn_unless_evaluated(field, name, known.EVALUATED_ACTIONS, "action")
        return found

    def read_tier(self, tier: ConfField, fields: list[ConfField]) -> None:
        plugins = tuple(self.read_plugin(field) for field in fields)
        self.tiers.append(plugins)
        found = {plugin.name: plugin for plugin in plugins}
        if "proportion" in found and "drf" in found and found["drf"].hierarchy:
            tier.warn("Volcano refuses proportion beside drf with enableHierarchy; the first listed counts")

    def read_plugin(self, field: ConfField) -> Plugin:
        plugin = field.names()
        name = plugin["name"].text("the name of a plugin")
        if plugin["name"].is_known(name, known.PLUGINS, "plugin"):
            if name in known.PARTLY_EVALUATED:
                plugin["name"].warn(f"of the plugin '{name}' {known.PARTLY_EVALUATED[name]}")
            else:
                _warn_unless_evaluated(plugin["name"], name, known.EVALUATED_PLUGINS, "plugin")
        if name in self.arguments:
            plugin.warn(f"the plugin {name} is listed twice: the later arguments count")
        for key in plugin.value:
            if key not in known.SWITCHES:
                plugin.is_known(key, known.PLUGIN_KEYS, "key")
        self.read_arguments(name, plugin["arguments"].otherwise({}).names())
        on = {known.SWITCHES[key]: plugin[key].boolean() for key in plugin.value if key in known.SWITCHES}
        off = frozenset(function for function, is_on in on.items() if not is_on)
        return Plugin(name, off, hierarchy=on.get(known.HIERARCHY, False))

    def read_arguments(self, plugin: str, arguments: ConfField) -> None:
        self.arguments.setdefault(plugin, {}).update({key: as_text(value) for key, value in arguments.value.items()})
        for key in arguments.value:
            argument = arguments.entry(key)
            if plugin in self.of_nodes:
                self.of_nodes[plugin][key] = argument
            if plugin == _DEVICESHARE:
                arguments.is_known(key, (*known.family_flags(), *known.ARGUMENTS), "argument")
                self.values[key] = argument
            elif plugin == "predicates" and key in known.OLD_FLAGS:
                self.values.setdefault(known.OLD_FLAGS[key], argument)
            elif key in (known.WAITING_TIME, known.OVERCOMMIT_FACTOR, known.ANCESTOR_RECLAIM_LEVEL):
                self.values[key] = argument

    def read_configurations(self, field: ConfField) -> dict[str, dict[str, str]]:
        configurations = {}
        for item in field.items():
            entry = item.names()
            arguments = entry["arguments"].otherwise({}).names().value
            configurations[as_text(entry["name"].value)] = {key: as_text(each) for key, each in arguments.items()}
        return configurations

    def argument(self, name: str) -> ConfField:
        """Return an argument of deviceshare; its value is None if it is absent."""
        return self.values.get(name) or self.root.holding(None)

    def flag(self, name: str) -> bool:
        return self.argument(name).boolean()

    def weight(self) -> int:
        field = self.argument(known.WEIGHT)
        return 0 if field.blank() else field.number(0, LARGEST_WEIGHT)

    def seconds(self, name: str, default: float) -> float:
        field = self.argument(name)
        return default if field.blank() else float(field.number(0, LARGEST))

    def waiting_time(self) -> float | None:
        field = self.argument(known.WAITING_TIME)
        if field.value is None or known.SLA not in self.arguments:
            return None
        waiting = seconds_of(as_text(field.value))
        if waiting is None or waiting <= 0:
            raise field.error("a time such as 90s, 30m or 1h30m")
        return waiting

    def overcommit(self) -> float:
        if known.OVERCOMMIT not in self.arguments:
            return 0.0
        field = self.values.get(known.OVERCOMMIT_FACTOR)
        if field is None:
            return _USUAL_FACTOR
        try:
            factor = float(as_text(field.value))
        except ValueError:
            factor = 0.0
        if not _MIN_FACTOR <= factor < LARGEST_WEIGHT:
            raise field.error(f"a number from {_MIN_FACTOR:g}, such as {_USUAL_FACTOR}")
        return factor

    def object_name(self, argument: str, default: str, what: str) -> str:
        field = self.argument(argument)
        name = as_text(field.value).strip()
        if name and not _OBJECT_NAME.fullmatch(name):
            raise field.error(f"the name of {what}")
        return name or default

    def exclusive_rules(self) -> tuple[Labels, ...]:
        """Return the rules without duplicates, the labels of each sorted by name."""
        field = self.argument(known.EXCLUSIVE_RULES)
        if field.value is not None and not isinstance(field.value, list):
            raise field.error(_RULES)
        return tuple(dict.fromkeys(self.labels(rule, _RULE) for rule in field.items()))

    def device_scope(self) -> DeviceScope:
        field = self.argument(known.DEVICE_SCOPE)
        if isinstance(field.value, dict) and field.value.keys() == {"nodes"}:
            return DeviceScope(guarded=False, nodes=self.labels(field["nodes"], "those of the nodes"))
        word = as_text(field.value).strip() or "guarded"
        if word not in ("guarded", "exclusive"):
            raise field.error(_SCOPES)
        return DeviceScope(guarded=word == "guarded")

    def labels(self, field: ConfField, expected: str) -> Labels:
        """Return labels with their values, at least one, sorted by name."""
        if not isinstance(field.value, dict) or not field.value:
            raise field.error(f"labels and their values, at least one: {expected}")
        labels = field.names()
        for name, wanted in labels.value.items():
            if not isinstance(wanted, str):  # YAML converts on, 010 and similar values
                raise labels.entry(name).error("the value of a label as text, in quotes")
            if not _LABEL_NAME.fullmatch(name):
                labels.entry(name).warn(f"{name!r} is no name of a label, such as example.com/team: nothing has it")
        return tuple(sorted(labels.value.items()))


def _warn_unless_evaluated(field: ConfField, name: str, evaluated: frozenset[str], noun: str) -> None:
    if name not in evaluated:
        field.warn(f"the {noun} '{name}' is not evaluated and has no effect")
