"""The usage of a pod in a ResourceQuota, by which Volcano's controllers compute ``minResources`` of PodGroups.

Source: kubernetes/pkg/quota/v1/evaluator/core/pods.go (PodUsageFunc), kubernetes/component-helpers resource/helpers.go,
volcano-sh/volcano pkg/controllers/util/util.go (GetPodQuotaUsage).
"""

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any, NamedTuple

from deviceshare.model import ContainerRequest, PodRequest, format_quantity, is_native, to_amount
from deviceshare.state import sums

_BOTH = ("cpu", "memory", "ephemeral-storage")
"""Resources that a quota counts both by requests and by limits."""


class Sum(NamedTuple):
    """An amount, and whether it is formatted with binary suffixes (``Gi``), like the first quantity of the sum."""

    amount: Fraction
    binary: bool

    def __add__(self, other: object) -> "Sum":
        if not isinstance(other, Sum):
            return NotImplemented
        return Sum(self.amount + other.amount, self.binary if self.amount else other.binary)

    def __str__(self) -> str:
        return format_quantity(self.amount, binary=self.binary)


def quota_usage(spec: Mapping[str, Any], count: int) -> dict[str, Sum]:
    """Return the usage of ``count`` pods of an admitted pod spec, by quota names and by resource names."""
    if not count:
        return {}
    requests, limits = _total(spec, "requests"), _total(spec, "limits")
    usage = {name: Sum(Fraction(1), binary=False) for name in ("count/pods", "pods")}
    for name, amount in requests.items():
        if name in _BOTH or name.startswith("hugepages-") or _is_extended(name):
            usage |= {name: amount, f"requests.{name}": amount}
    usage |= {f"limits.{name}": limits[name] for name in _BOTH if name in limits}
    return {name: Sum(each.amount * count, each.binary) for name, each in usage.items()}


def request_totals(spec: Mapping[str, Any], count: int) -> dict[str, Sum]:
    """Return the requests of ``count`` pods by resource; limits count where a container has no request."""
    if not count:
        return {}
    requests = {name: Sum(each.amount * count, each.binary) for name, each in _total(spec, "requests").items()}
    limits = {name: Sum(each.amount * count, each.binary) for name, each in _total(spec, "limits").items()}
    return {**limits, **requests}


def add_usage(total: dict[str, Sum], more: Mapping[str, Sum]) -> None:
    """Add amounts, in place."""
    for name, amount in more.items():
        total[name] = total[name] + amount if name in total else amount


def _is_extended(name: str) -> bool:
    return "/" in name and "kubernetes.io/" not in name and not name.startswith("requests.")


def _total(spec: Mapping[str, Any], which: str) -> dict[str, Sum]:
    """Return the total requests or limits (``which``) of a pod by resource."""
    containers, first = (list(_containers(spec.get(field) or (), which)) for field in ("containers", "initContainers"))
    pod_level = tuple(_amounts((spec.get("resources") or {}).get(which)).items())
    total = sums(PodRequest(containers=tuple(containers), init_containers=tuple(first), pod_level=pod_level))
    for name, amount in _amounts(spec.get("overhead")).items():
        if which == "requests" or name in total:
            total[name] = total.get(name, 0) + amount
    binary = _binary(spec, which)
    return {name: Sum(Fraction(amount, 1000 if name == "cpu" else 1), name in binary) for name, amount in total.items()}


def _containers(given: Iterable[Mapping[str, Any]], which: str) -> Iterable[ContainerRequest]:
    for each in given:
        amounts = _amounts((each.get("resources") or {}).get(which))
        yield ContainerRequest(each["name"], tuple(amounts.items()), sidecar=each.get("restartPolicy") == "Always")


def _amounts(given: Mapping[str, Any] | None) -> dict[str, int]:
    return {name: to_amount(name, value, "pod", name) for name, value in (given or {}).items()}


def _binary(spec: Mapping[str, Any], which: str) -> set[str]:
    """Return the resources whose first quantity has a binary suffix; pod-level quantities come first."""
    found: dict[str, bool] = {}
    for one in (spec, *(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        for name, value in ((one.get("resources") or {}).get(which) or {}).items():
            found.setdefault(name, is_native(name) and str(value).endswith("i"))
    return {name for name, binary in found.items() if binary}
