"""Whether an allocation of devices is valid, by the rules of Dynamic Resource Allocation, device after device.

It computes on the objects as they are in JSON and shares no code with the solver. Only CEL is evaluated by the caller.
"""

from collections.abc import Callable, Iterator
from fractions import Fraction
from math import ceil
from typing import Any

from deviceshare.model import parse_quantity

Json = dict[str, Any]
Id = tuple[str, str, str]
Matches = Callable[[str, str, Json], bool]
"""Whether an expression matches a device of a driver."""


class Invalid(AssertionError):
    """The allocation breaks a rule."""


def require(condition: object, text: str) -> None:
    if not condition:
        raise Invalid(text)


class Checker:
    """A node of a recorded case, with what other claims use."""

    def __init__(self, case: Json, node: str, matches: Matches) -> None:
        self.case, self.matches = case, matches
        self.node = next(each for each in case["nodes"] if each["metadata"]["name"] == node)
        self.features = frozenset(case["features"])
        self.classes = {each["metadata"]["name"]: each for each in case.get("deviceClasses", ())}
        self.devices: dict[Id, tuple[Json, Json]] = dict(self._visible())
        self.dedicated: set[Id] = set()
        self.consumed: dict[Id, dict[str, Fraction]] = {}
        self._read_used()
        self.others = set(self.dedicated) | set(self.consumed)
        self.marked: dict[Id, set[int]] = {}
        self.new: list[Id] = []

    def _read_used(self) -> None:
        if claims := self.case.get("allocatedClaims"):
            for each in (r for claim in claims for r in claim["status"]["allocation"]["devices"]["results"] or ()):
                if each.get("adminAccess"):
                    continue
                if each.get("shareID"):
                    self._consume(key_of(each), each.get("consumedCapacity") or {})
                else:
                    self.dedicated.add(key_of(each))
            return
        state = self.case["allocatedState"]
        self.dedicated.update(key_of(each) for each in state.get("devices") or ())
        for each in state.get("shares") or ():
            self._consume(key_of(each), {})
        for each in state.get("capacity") or ():
            self._consume(key_of(each), each["consumed"])

    def _consume(self, key: Id, amounts: Json) -> None:
        used = self.consumed.setdefault(key, {})
        for name, amount in amounts.items():
            used[name] = used.get(name, Fraction(0)) + parse_quantity(amount)

    def _pool(self, driver: str, name: str) -> list[Json]:
        return [
            each
            for each in self.case.get("slices", ())
            if (each["spec"]["driver"], each["spec"]["pool"]["name"]) == (driver, name)
        ]

    def _visible(self) -> Iterator[tuple[Id, tuple[Json, Json]]]:
        """Yield the devices that the node sees, of complete pools."""
        for driver, name in {
            (each["spec"]["driver"], each["spec"]["pool"]["name"]) for each in self.case.get("slices", ())
        }:
            seen = [each for each in self._pool(driver, name) if any(self._here(each))]
            newest = max((generation(each) for each in seen), default=None)
            current = [each for each in seen if generation(each) == newest]
            count = current[0]["spec"]["pool"]["resourceSliceCount"] if current else 0
            if current and len(current) != count:
                every = [each for each in self._pool(driver, name) if self._known(each)]
                obsolete = any(generation(each) > newest for each in self._pool(driver, name))
                if obsolete or sum(generation(each) == newest for each in every) != count:
                    continue
            for each in current:
                for device, here in zip(each["spec"].get("devices") or (), self._here(each), strict=False):
                    if here:
                        yield (driver, name, device["name"]), (device, each)

    def _known(self, each: Json) -> bool:
        uses = (use for device in each["spec"].get("devices") or () for use in device.get("consumesCounters") or ())
        return "CompatibilityGroups" in self.features or not any(use.get("compatibilityGroups") for use in uses)

    def _here(self, each: Json) -> list[bool]:
        """Return for each device of a slice, and for a slice without any once, whether the node sees it."""
        spec = each["spec"]
        partitions = spec.get("sharedCounters") or spec.get("perDeviceNodeSelection")
        off = not self._known(each) or (partitions and "PartitionableDevices" not in self.features)
        devices = spec.get("devices") or ()
        if spec.get("perDeviceNodeSelection"):
            return [not off and self._selected(device) for device in devices]
        return [not off and self._selected(spec)] * max(1, len(devices))

    def _selected(self, spec: Json) -> bool:
        if spec.get("nodeName"):
            return bool(spec["nodeName"] == self.node["metadata"]["name"])
        labels = self.node["metadata"].get("labels") or {}
        names = {"metadata.name": self.node["metadata"]["name"]}
        terms = (spec.get("nodeSelector") or {}).get("nodeSelectorTerms") or ()
        return bool(spec.get("allNodes")) or any(
            (term.get("matchExpressions") or term.get("matchFields"))
            and all(fulfils(each, labels) for each in term.get("matchExpressions") or ())
            and all(fulfils(each, names) for each in term.get("matchFields") or ())
            for term in terms
        )

    def check(self, claims: list[Json], allocations: list[list[Json]]) -> None:
        """Check the results of all claims, in order. Raises Invalid."""
        require(len(claims) == len(allocations), "a claim without an allocation")
        for number, (claim, results) in enumerate(zip(claims, allocations, strict=True)):
            require(len(results) <= 32, "more than 32 devices")
            asked = self._asked(claim, results)
            for result in results:
                self._give(number, asked[result["request"]], result)
            for constraint in claim["spec"]["devices"].get("constraints") or ():
                self._constrain(constraint, results)
        for key in {key[:2] for key in self.new}:
            self._check_counters(key)

    def _asked(self, claim: Json, results: list[Json]) -> dict[str, Json]:
        """Return what the requests and chosen alternatives ask for; their numbers must be right."""
        asked: dict[str, Json] = {}
        for request in claim["spec"]["devices"].get("requests", ()):
            names = {result["request"] for result in results if result["request"].split("/")[0] == request["name"]}
            require(len(names) == 1, f"request {request['name']} has the names {sorted(names)}")
            (name,) = names
            alternatives = {f"{request['name']}/{each['name']}": each for each in request.get("firstAvailable") or ()}
            asked[name] = alternatives[name] if alternatives else request["exactly"]
            given = [key_of(result) for result in results if result["request"] == name]
            require(len(set(given)) == len(given), f"request {name} has a device twice")
            if asked[name].get("allocationMode") == "All":
                every = {key for key in self.devices if self._fits_alone(asked[name], key)}
                require(set(given) == every, f"request {name} asks for all devices")
            else:
                require(len(given) == asked[name].get("count", 1), f"request {name} has {len(given)} devices")
        require({each["request"] for each in results} == set(asked), "a device for an unknown request")
        return asked

    def _fits_alone(self, asked: Json, key: Id) -> bool:
        device, _ = self.devices[key]
        selectors = [*(self.classes[asked["deviceClassName"]].get("spec", {}).get("selectors") or ())]
        selectors += asked.get("selectors") or ()
        if not all(self.matches(each["cel"]["expression"], key[0], device) for each in selectors):
            return False
        if device.get("bindingConditions") and "DeviceBindingAndStatus" not in self.features:
            return False
        if "ConsumableCapacity" not in self.features:
            return True
        amounts = self._amounts(asked, device)
        return amounts is not None and all(
            amount <= parse_quantity(device["capacity"][name]["value"]) for name, amount in amounts.items()
        )

    def _amounts(self, asked: Json, device: Json) -> dict[str, Fraction] | None:
        wanted = (asked.get("capacity") or {}).get("requests") or {}
        capacity = device.get("capacity") or {}
        if not set(wanted) <= set(capacity):
            return None
        found = {}
        for name, each in capacity.items():
            amount = rounded(each, wanted.get(name), "FractionalCapacityRange" in self.features)
            if amount is None:
                return None
            found[name] = amount
        return found

    def _give(self, number: int, asked: Json, result: Json) -> None:
        key, admin = key_of(result), bool(asked.get("adminAccess"))
        require(key in self.devices, f"the node does not see {key}")
        device, each = self.devices[key]
        require(self._fits_alone(asked, key), f"{key} does not match {result['request']}")
        require(bool(result.get("adminAccess")) == admin, f"{key}: adminAccess")
        counted = device.get("consumesCounters") and "PartitionableDevices" not in self.features
        require(not counted, f"{key} consumes counters")
        if each["spec"].get("skipNodeOperations"):
            declared = self.node.get("status", {}).get("declaredFeatures") or ()
            allowed = "OptionalNodeOperations" in self.features and "DRAOptionalNodeOperations" in declared
            require(allowed, f"{key} skips operations of the node")
        shared = device.get("allowMultipleAllocations") and "ConsumableCapacity" in self.features
        holders = self.marked.setdefault(key, set())
        if admin:
            require(shared or number not in holders, f"{key} is twice in a claim")
        else:
            require(key not in self.dedicated and not (holders and not shared), f"{key} is in use")
        if "DeviceTaints" in self.features:
            for taint in device.get("taints") or ():
                tolerated = any(tolerates(each, taint) for each in asked.get("tolerations") or ())
                require(tolerated or taint.get("effect") not in ("NoSchedule", "NoExecute"), f"{key} is tainted")
        if not (shared and key in self.consumed):
            self.new.append(key)
        holders.add(number)
        if shared:
            amounts = self._amounts(asked, device) or {}
            stated = {name: parse_quantity(value) for name, value in (result.get("consumedCapacity") or {}).items()}
            require(stated == amounts, f"{key} consumes {stated}, not {amounts}")
            used = self.consumed.setdefault(key, {})
            for name, amount in amounts.items():
                used[name] = used.get(name, Fraction(0)) + amount
                value = parse_quantity(device["capacity"][name]["value"])
                require(used[name] <= value, f"{key} has too little {name}")

    def _constrain(self, constraint: Json, results: list[Json]) -> None:
        names = constraint.get("requests") or ()
        match, distinct = constraint.get("matchAttribute"), constraint.get("distinctAttribute")
        found = []
        for result in results:
            if names and result["request"] not in names and result["request"].split("/")[0] not in names:
                continue
            values = self._values(key_of(result), match or distinct or "")
            require(values, f"{key_of(result)} has no {match or distinct}")
            found.append(values)
        if match and found:
            require(set.intersection(*found), f"{match} differs")
        elif distinct:
            require(sum(map(len, found)) == len(set().union(*found)), f"{distinct} is there twice")

    def _values(self, key: Id, name: str) -> set[tuple[str, Any]]:
        attributes = self.devices[key][0].get("attributes") or {}
        domain, _, plain = name.partition("/")
        entry = attributes.get(name) or (attributes.get(plain) if domain == key[0] else None) or {}
        found: set[tuple[str, Any]] = set()
        for kind, value in entry.items():
            if isinstance(value, list) and "ListTypeAttributes" in self.features:
                found |= {(kind.removesuffix("s"), each) for each in value}
            elif value is not None and not isinstance(value, list):
                found.add((kind, value))
        return found

    def _check_counters(self, pool: tuple[str, str]) -> None:
        """Check that the devices in use and the new ones of a pool leave no counter negative, and go together."""
        current = max(generation(self.devices[key][1]) for key in self.new if key[:2] == pool)
        slices = [each for each in self._pool(*pool) if generation(each) == current]
        devices = {each["name"]: each for one in slices for each in one["spec"].get("devices") or ()}
        used = [name for name in devices if (*pool, name) in self.others]
        new = [key[2] for key in self.new if key[:2] == pool]
        if not any(devices[name].get("consumesCounters") for name in new):
            return
        left = {
            (shared["name"], name): parse_quantity(counter["value"])
            for each in slices
            for shared in each["spec"].get("sharedCounters") or ()
            for name, counter in shared["counters"].items()
        }
        groups: dict[str, list[set[str]]] = {}
        for device in (devices[name] for name in [*used, *new]):
            for use in device.get("consumesCounters") or ():
                groups.setdefault(use["counterSet"], []).append(set(use.get("compatibilityGroups") or ()))
                for name, counter in use["counters"].items():
                    left[use["counterSet"], name] -= parse_quantity(counter["value"])
        require(min(left.values(), default=0) >= 0, f"a counter of {pool} is negative")
        for together in groups.values():
            require(not any(together) or set.intersection(*together), f"groups of {pool} do not go together")


def key_of(result: Json) -> Id:
    return result["driver"], result["pool"], result["device"]


def generation(each: Json) -> int:
    return int(each["spec"]["pool"].get("generation", 0))


def fulfils(requirement: Json, labels: Json) -> bool:
    value, values = labels.get(requirement["key"]), requirement.get("values") or []
    match requirement["operator"]:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt" as operator:
            if value is None or not value.isdecimal():
                return False
            return int(value) > int(values[0]) if operator == "Gt" else int(value) < int(values[0])
    raise NotImplementedError(requirement)


def tolerates(toleration: Json, taint: Json) -> bool:
    if any(toleration.get(name) and toleration[name] != taint.get(name) for name in ("key", "effect")):
        return False
    return toleration.get("operator") == "Exists" or toleration.get("value", "") == taint.get("value", "")


def rounded(capacity: Json, asked: Any, fractional: bool) -> Fraction | None:
    """Return what a request consumes of a capacity, None if its policy does not allow that."""
    policy, scale = capacity.get("requestPolicy") or {}, 1000 if fractional else 1
    if asked is None:
        return parse_quantity(policy.get("default") or capacity["value"])
    amount = parse_quantity(asked)
    if values := sorted(map(parse_quantity, policy.get("validValues") or ())):
        return next((value for value in values if value >= amount), None)
    if bounds := policy.get("validRange"):
        least = parse_quantity(bounds["min"])
        if amount < least:
            amount = least
        elif bounds.get("step"):
            amounts = (parse_quantity(each) for each in bounds.values() if each)
            scale = scale if all((each * scale).denominator == 1 and each * scale < 2**63 for each in amounts) else 1
            start, step = ceil(least * scale), ceil(parse_quantity(bounds["step"]) * scale)
            amount = Fraction(start + ceil((amount * scale - start) / step) * step, scale)
        if bounds.get("max") and amount > parse_quantity(bounds["max"]):
            return None
    return amount
