"""What an object of ``resource.k8s.io/v1`` has at most, and the values that the allocation computes with.

Source: types.go and validation.go of ``resource.k8s.io`` in Kubernetes 1.34 and 1.37, of two bounds the larger one.
Kinds of selectors, constraints, attributes and modes that this version does not know are no errors here: the solver
refuses the claims that meet them.
"""

from collections.abc import Iterable, Mapping, Sized
from typing import Any, NoReturn

import msgspec

from deviceshare.model import FormatError, parse_quantity
from deviceshare.model.device_objects import (
    Attribute,
    Capacity,
    Config,
    Device,
    DeviceClass,
    DeviceTaintRule,
    Exact,
    Metadata,
    RequestPolicy,
    ResourceClaim,
    ResourceSlice,
    Result,
    Selector,
)

_DEVICES, _ATTRIBUTES, _VALUES, _TAINTS, _CONDITIONS = 128, 32, 48, 16, 4
_COUNTER_SETS, _COUNTERS, _OPTIONS = 32, 32, 10
_REQUESTS, _ALTERNATIVES, _CONSTRAINTS, _CONFIGS, _SELECTORS, _TOLERATIONS, _RESULTS = 32, 8, 32, 32, 32, 16, 32
_NAME, _DRIVER, _KEY, _LABEL, _TEXT = 253, 63, 63 + 1 + 32, 253 + 1 + 63, 64
_EXPRESSION, _PARAMETERS = 10 * 1024, 10 * 1024
_INT64 = 2**63


class Checks:
    """Checks of the fields of one object; each raises FormatError with object, field, value and what is valid."""

    def __init__(self, subject: str) -> None:
        self._subject = subject

    def refuse(self, field: str, value: object, expected: str) -> NoReturn:
        """Refuse a value."""
        raise FormatError(self._subject, field, value, expected)

    def at_most(self, given: Sized, most: int, field: str) -> None:
        """Check the number of entries."""
        if len(given) > most:
            self.refuse(field, f"{len(given)} entries", f"at most {most} entries")

    def text(self, value: str, most: int, field: str, least: int = 1) -> None:
        """Check the length of a text."""
        if len(value) > most:
            self.refuse(field, value[:_NAME], f"at most {most} characters, not {len(value)}")
        if len(value) < least:
            self.refuse(field, value, "a text that is not empty")

    def unique(self, names: Iterable[str], field: str) -> None:
        """Check that no name is there twice."""
        seen: set[str] = set()
        for name in names:
            if name in seen:
                self.refuse(field, name, "each name once")
            seen.add(name)

    def quantity(self, value: Any, field: str) -> None:
        """Check a quantity."""
        try:
            parse_quantity(value)
        except ValueError:
            self.refuse(field, str(value)[:_NAME], "a quantity such as 4Gi, 500m or 2")

    def quantities(self, amounts: Mapping[str, Any], field: str) -> None:
        """Check amounts by name."""
        self.at_most(amounts, _ATTRIBUTES, field)
        for name, value in amounts.items():
            self.text(name, _KEY, f"{field}[{name[:_KEY]}]")
            self.quantity(value, f"{field}[{name}]")


def check_class(found: DeviceClass, checks: Checks) -> None:
    """Check a DeviceClass. Raises FormatError."""
    _identity(found.metadata, checks)
    _selectors(found.spec.selectors, "spec.selectors", checks)
    _configs(found.spec.config, _CONFIGS, "spec.config", checks)


def check_slice(found: ResourceSlice, checks: Checks) -> None:
    """Check a ResourceSlice. Raises FormatError."""
    spec = found.spec
    _identity(found.metadata, checks)
    checks.text(spec.driver, _DRIVER, "spec.driver")
    checks.text(spec.pool.name, _NAME, "spec.pool.name")
    if spec.pool.resource_slice_count < 1:
        checks.refuse("spec.pool.resourceSliceCount", spec.pool.resource_slice_count, "a whole number of 1 or more")
    if spec.pool.generation < 0:
        checks.refuse("spec.pool.generation", spec.pool.generation, "a whole number of 0 or more")
    selections = (spec.node_name, spec.node_selector, spec.all_nodes, spec.per_device_node_selection)
    if sum(map(bool, selections)) > 1:
        expected = "exactly one of nodeName, nodeSelector, allNodes and perDeviceNodeSelection"
        checks.refuse("spec", f"{sum(map(bool, selections))} of them", expected)
    checks.at_most(spec.devices, _DEVICES, "spec.devices")
    for at, device in enumerate(spec.devices):
        _device(device, f"spec.devices[{at}]", checks)
    checks.at_most(spec.shared_counters, _COUNTER_SETS, "spec.sharedCounters")
    for at, each in enumerate(spec.shared_counters):
        checks.text(each.name, _NAME, f"spec.sharedCounters[{at}].name")
        _counters(each.counters, f"spec.sharedCounters[{at}].counters", checks)


def check_taint_rule(found: DeviceTaintRule, checks: Checks) -> None:
    """Check a DeviceTaintRule. Raises FormatError."""
    _identity(found.metadata, checks)
    _selectors(found.spec.device_selector.selectors, "spec.deviceSelector.selectors", checks)
    checks.text(found.spec.taint.key, _LABEL, "spec.taint.key")


def check_claim(found: ResourceClaim, checks: Checks) -> None:
    """Check a ResourceClaim. Raises FormatError."""
    devices, field = found.spec.devices, "spec.devices"
    _identity(found.metadata, checks)
    checks.at_most(devices.requests, _REQUESTS, f"{field}.requests")
    checks.unique((each.name for each in devices.requests), f"{field}.requests")
    for at, request in enumerate(devices.requests):
        place = f"{field}.requests[{at}]"
        checks.text(request.name, _DRIVER, f"{place}.name")
        if request.exactly is not None and request.first_available:
            checks.refuse(place, "both", "exactly one of exactly and firstAvailable")
        if request.exactly is not None:
            _exact(request.exactly, f"{place}.exactly", checks)
        checks.at_most(request.first_available, _ALTERNATIVES, f"{place}.firstAvailable")
        checks.unique((each.name for each in request.first_available), f"{place}.firstAvailable")
        for number, alternative in enumerate(request.first_available):
            checks.text(alternative.name, _DRIVER, f"{place}.firstAvailable[{number}].name")
            _exact(alternative, f"{place}.firstAvailable[{number}]", checks)
    checks.at_most(devices.constraints, _CONSTRAINTS, f"{field}.constraints")
    for at, constraint in enumerate(devices.constraints):
        checks.at_most(constraint.requests, _REQUESTS, f"{field}.constraints[{at}].requests")
        for kind in ("match_attribute", "distinct_attribute"):
            if (name := getattr(constraint, kind)) is not None:
                checks.text(name, _KEY, f"{field}.constraints[{at}].{kind.replace('_a', 'A')}")
    _configs(devices.config, _CONFIGS, f"{field}.config", checks)
    if found.status.allocation is not None:
        _results(found.status.allocation.devices.results, "status.allocation.devices.results", checks)


def _identity(metadata: Metadata, checks: Checks) -> None:
    checks.text(metadata.name, _NAME, "metadata.name")


def _device(device: Device, field: str, checks: Checks) -> None:
    checks.text(device.name, _DRIVER, f"{field}.name")
    number = len(device.attributes) + len(device.capacity)
    if number > _ATTRIBUTES:
        checks.refuse(field, f"{number} attributes and capacities", f"at most {_ATTRIBUTES} together")
    if sum(_values(each) for each in device.attributes.values()) > _VALUES:
        checks.refuse(f"{field}.attributes", "more values", f"at most {_VALUES} values together")
    for name, attribute in device.attributes.items():
        checks.text(name, _KEY, f"{field}.attributes[{name[:_KEY]}]")
        _attribute(attribute, f"{field}.attributes[{name}]", checks)
    for name, capacity in device.capacity.items():
        checks.text(name, _KEY, f"{field}.capacity[{name[:_KEY]}]")
        _capacity(capacity, f"{field}.capacity[{name}]", checks)
    checks.at_most(device.consumes_counters, _COUNTER_SETS, f"{field}.consumesCounters")
    checks.unique((each.counter_set for each in device.consumes_counters), f"{field}.consumesCounters")
    for at, use in enumerate(device.consumes_counters):
        checks.text(use.counter_set, _NAME, f"{field}.consumesCounters[{at}].counterSet")
        _counters(use.counters, f"{field}.consumesCounters[{at}].counters", checks)
    checks.at_most(device.taints, _TAINTS, f"{field}.taints")
    _conditions(device, field, checks)


def _conditions(of: Device | Result, field: str, checks: Checks) -> None:
    checks.at_most(of.binding_conditions, _CONDITIONS, f"{field}.bindingConditions")
    checks.at_most(of.binding_failure_conditions, _CONDITIONS, f"{field}.bindingFailureConditions")


def _values(attribute: Attribute) -> int:
    lists = (attribute.ints, attribute.bools, attribute.strings, attribute.versions)
    return sum(len(each) for each in lists if each is not None) or 1


def _attribute(attribute: Attribute, field: str, checks: Checks) -> None:
    given = [name for name in attribute.__struct_fields__ if getattr(attribute, name) is not None]
    if len(given) > 1:
        checks.refuse(field, ", ".join(name.rstrip("_") for name in given), "a value of exactly one type")
    texts = (attribute.string, attribute.version, *(attribute.strings or ()), *(attribute.versions or ()))
    for text in texts:
        if text is not None:
            checks.text(text, _TEXT, field, least=0)
    for number in (attribute.int_, *(attribute.ints or ())):
        if number is not None and not -_INT64 <= number < _INT64:
            checks.refuse(field, number, "an integer of 64 bits")


def _capacity(capacity: Capacity, field: str, checks: Checks) -> None:
    checks.quantity(capacity.value, f"{field}.value")
    if capacity.request_policy is not None:
        _policy(capacity.request_policy, f"{field}.requestPolicy", checks)


def _policy(policy: RequestPolicy, field: str, checks: Checks) -> None:
    checks.at_most(policy.valid_values, _OPTIONS, f"{field}.validValues")
    if policy.valid_values and policy.valid_range is not None:
        checks.refuse(field, "both", "at most one of validValues and validRange")
    for at, value in enumerate(policy.valid_values):
        checks.quantity(value, f"{field}.validValues[{at}]")
    if policy.default is not None:
        checks.quantity(policy.default, f"{field}.default")
    elif policy.valid_values or policy.valid_range is not None:
        checks.refuse(f"{field}.default", "", "a quantity, since valid values are given")
    bounds = policy.valid_range
    for name in ("min", "max", "step") if bounds is not None else ():
        if (value := getattr(bounds, name)) is not None:
            checks.quantity(value, f"{field}.validRange.{name}")
    if bounds is not None and bounds.step is not None and parse_quantity(bounds.step) <= 0:
        checks.refuse(f"{field}.validRange.step", bounds.step, "more than 0")


def _counters(counters: Mapping[str, Capacity], field: str, checks: Checks) -> None:
    checks.at_most(counters, _COUNTERS, field)
    for name, counter in counters.items():
        checks.text(name, _NAME, f"{field}[{name[:_NAME]}]")
        checks.quantity(counter.value, f"{field}[{name}].value")


def _exact(exact: Exact, field: str, checks: Checks) -> None:
    checks.text(exact.device_class_name, _NAME, f"{field}.deviceClassName", least=0)
    _selectors(exact.selectors, f"{field}.selectors", checks)
    if exact.allocation_mode == "ExactCount" and not 0 < exact.count < _INT64:
        checks.refuse(f"{field}.count", exact.count, "a whole number of 1 or more")
    checks.at_most(exact.tolerations, _TOLERATIONS, f"{field}.tolerations")
    if exact.capacity is not None:
        checks.quantities(exact.capacity.requests, f"{field}.capacity.requests")


def _selectors(selectors: tuple[Selector, ...], field: str, checks: Checks) -> None:
    checks.at_most(selectors, _SELECTORS, field)
    for at, selector in enumerate(selectors):
        if selector.cel is not None:
            checks.text(selector.cel.expression, _EXPRESSION, f"{field}[{at}].cel.expression")


def _configs(configs: tuple[Config, ...], most: int, field: str, checks: Checks) -> None:
    checks.at_most(configs, most, field)
    for at, config in enumerate(configs):
        checks.at_most(config.requests, _REQUESTS, f"{field}[{at}].requests")
        if config.opaque is not None:
            checks.text(config.opaque.driver, _DRIVER, f"{field}[{at}].opaque.driver")
            if (size := len(msgspec.json.encode(config.opaque.parameters))) > _PARAMETERS:
                checks.refuse(f"{field}[{at}].opaque.parameters", f"{size} bytes", f"at most {_PARAMETERS} bytes")


def _results(results: tuple[Result, ...], field: str, checks: Checks) -> None:
    checks.at_most(results, _RESULTS, field)
    for at, result in enumerate(results):
        for name in ("request", "driver", "pool", "device"):
            checks.text(getattr(result, name), _NAME, f"{field}[{at}].{name}")
        _conditions(result, f"{field}[{at}]", checks)
        checks.quantities(result.consumed_capacity, f"{field}[{at}].consumedCapacity")
