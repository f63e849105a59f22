"""DeviceTaintRules: taints for the devices that they select. Source: resourceslice/tracker of 1.34 and 1.36."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from deviceshare.families.dra.selectors import Selectors
from deviceshare.model.device_objects import Device, DeviceClass, Selector, SliceSpec, Taint, TaintRuleSpec


class RuleTaint(Taint, frozen=True, kw_only=True):
    """A taint that a device has by a DeviceTaintRule.

    ``by_rule`` tells it from a taint of the driver where slices are compared by their encoding. The rule has no part in
    it: nodes with a rule each share their answers.
    """

    by_rule: bool


class TaintRules:
    """The DeviceTaintRules of a cluster.

    Args:
        classes: the DeviceClasses by name; the caller changes them in place.
        selectors: evaluates the expressions of rules of Kubernetes 1.34; later versions have none.
    """

    def __init__(self, classes: Mapping[str, DeviceClass], selectors: Selectors) -> None:
        self._classes, self._selectors = classes, selectors
        self._rules: dict[str, TaintRuleSpec] = {}
        self._of_pool: defaultdict[str | None, dict[str, TaintRuleSpec]] = defaultdict(dict)
        """The rules by the name of their pool, None for those of any: there may be one for each node."""

    def put(self, name: str, spec: TaintRuleSpec | None) -> list[TaintRuleSpec]:
        """Add or update a rule, None: it is gone; return the rule as it was and as it is, nothing if it is the same."""
        before = self._rules.pop(name, None)
        if before is not None:
            pool = before.device_selector.pool
            del self._of_pool[pool][name]
            if not self._of_pool[pool]:
                del self._of_pool[pool]
        if spec is not None:
            self._rules[name] = self._of_pool[spec.device_selector.pool][name] = spec
        return [each for each in (before, spec) if each is not None] if before != spec else []

    def of_class(self, name: str) -> list[TaintRuleSpec]:
        """Return the rules that select by a DeviceClass."""
        return [each for each in self._rules.values() if each.device_selector.device_class_name == name]

    def tainted(self, spec: SliceSpec) -> SliceSpec:
        """Return a slice with the taints that its devices have by the rules of now, and by no earlier ones."""
        of_name = (each for pool in (None, spec.pool.name) for each in self._of_pool.get(pool, {}).values())
        rules = [each for each in of_name if selects_pool(each, spec.driver, spec.pool.name)]
        if not rules and not any(device.taints for device in spec.devices):
            return spec
        return replace(spec, devices=tuple(self._tainted(device, spec.driver, rules) for device in spec.devices))

    def _tainted(self, device: Device, driver: str, rules: Sequence[TaintRuleSpec]) -> Device:
        own = [each for each in device.taints if not isinstance(each, RuleTaint)]
        by_rules = {
            (each.taint.key, each.taint.value, each.taint.effect)
            for each in rules
            if self._selects(each, driver, device)
        }
        added = [
            RuleTaint(key=key, value=value, effect=effect, by_rule=True) for key, value, effect in sorted(by_rules)
        ]
        taints = (*own, *added)
        return device if taints == device.taints else replace(device, taints=taints)

    def _selects(self, rule: TaintRuleSpec, driver: str, device: Device) -> bool:
        """Return whether a rule whose driver and pool are those of a device selects it.

        An expression that fails on a device does not match it, as in Kubernetes. One that cannot be evaluated at all
        does: a device that must not be given is worse than one that is not.
        """
        wanted = rule.device_selector
        if wanted.device is not None and wanted.device != device.name:
            return False
        if wanted.device_class_name is not None and wanted.device_class_name not in self._classes:
            return False
        for expression in self._expressions(wanted.selectors, wanted.device_class_name):
            found = self._selectors.matches(expression, driver, device, multiple=True)
            if found is False or (isinstance(found, tuple) and found[0] == "cel-runtime"):
                return False
        return True

    def _expressions(self, selectors: Sequence[Selector], of_class: str | None) -> Iterator[str]:
        of_classes = self._classes[of_class].spec.selectors if of_class is not None else ()
        return (each.cel.expression for each in (*of_classes, *selectors) if each.cel is not None)


def selects_pool(rule: TaintRuleSpec, driver: str, pool: str) -> bool:
    """Return whether a rule may select devices of a pool."""
    wanted = rule.device_selector
    return wanted.driver in (None, driver) and wanted.pool in (None, pool)
