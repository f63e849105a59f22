"""What the API server checks of a pod, and the defaults that it fills in.

Source: Kubernetes' pod validation and defaulting, as far as a scheduler can see it. One thing differs on purpose: an
extended resource that stands among the requests only is refused by Kubernetes; here it is taken for the limit, with a
warning, since published examples are written so.
"""

from typing import Any

from deviceshare.model import RequestError, is_native, to_amount

from deviceshare_cluster.interface import Object
from deviceshare_cluster.local.checks import At

DEFAULT_SCHEDULER = "default-scheduler"
_RESTART_POLICIES = ("Always", "OnFailure", "Never")
_PHASES = ("Pending", "Running", "Succeeded", "Failed", "Unknown")


def admit_pod_spec(spec: Any, at: At, warnings: list[str]) -> None:
    """Check a pod's spec and fill in its defaults, in place. Raises RequestError.

    ``at`` is where the spec stands: in a pod, or in a template of a Job.
    """
    if not isinstance(spec, dict) or not spec:
        raise at.error(spec, "a pod's spec with containers")
    names: set[str] = set()
    containers = at["containers"].items(spec.get("containers"))
    if not containers:
        raise at["containers"].error(spec.get("containers"), "at least one container with a name and an image")
    for field in ("containers", "initContainers"):
        for index, container in enumerate(at[field].items(spec.get(field))):
            _admit_container(container, at[field][index], names, warnings)
    policy = spec.setdefault("restartPolicy", "Always")
    if policy not in _RESTART_POLICIES:
        raise at["restartPolicy"].error(policy, f"one of {', '.join(_RESTART_POLICIES)}")
    for field in ("schedulerName", "nodeName", "priorityClassName", "hostname", "subdomain"):
        at[field].optional_text(spec.get(field))
    at["nodeSelector"].texts(spec.get("nodeSelector"))
    for field in ("tolerations", "schedulingGates", "volumes"):
        for index, one in enumerate(at[field].items(spec.get(field))):
            at[field][index].entry(one)
    at["affinity"].mapping(spec.get("affinity"))


def admit_pod(pod: Object, at: At, warnings: list[str]) -> None:
    """Check a pod and fill in its defaults, in place. Raises RequestError."""
    spec = pod.get("spec")
    admit_pod_spec(spec, at["spec"], warnings)
    assert isinstance(spec, dict)
    if not spec.get("schedulerName"):
        spec["schedulerName"] = DEFAULT_SCHEDULER
    status = at["status"].mapping(pod.get("status"))
    # There is no kubelet to say so: what stands on a node runs.
    phase = status.setdefault("phase", "Running" if spec.get("nodeName") else "Pending")
    if phase not in _PHASES:
        raise at["status"]["phase"].error(phase, f"one of {', '.join(_PHASES)}")
    pod["status"] = status


def _admit_container(container: Any, at: At, names: set[str], warnings: list[str]) -> None:
    if not isinstance(container, dict):
        raise at.error(container, "a container with a name and an image")
    name = at["name"].label(container.get("name"))
    if name in names:
        raise at["name"].error(name, "a name that no other container of the pod has")
    names.add(name)
    at["image"].text(container.get("image"), "the image to run")
    if "resources" in container:
        at = at["resources"]
        resources = at.mapping(container["resources"])
        limits = _amounts(resources, at, "limits")
        requests = _amounts(resources, at, "requests")
        if limits or requests:
            _balance(resources, limits, requests, at, warnings)


def _amounts(resources: dict[str, Any], at: At, field: str) -> dict[str, int]:
    """Check the amounts of one side, write each as a text, and return them."""
    given = at[field].mapping(resources.get(field), "a mapping of resource names to amounts")
    return admit_amounts(given, at[field])


def admit_amounts(given: dict[str, Any], at: At) -> dict[str, int]:
    """Check amounts by resource name and write each as a text, as the API server does, in place; return what they say.

    Millicores, bytes or counts. Raises RequestError.
    """
    amounts = {}
    for name, value in given.items():
        if not is_native(name) and "/" not in name and name != "pods":
            raise at.error(name, "cpu, memory or a name with a domain, such as nvidia.com/gpu")
        amounts[name] = to_amount(name, value, at.subject, at[name].path, RequestError)
        given[name] = value if isinstance(value, str) else str(value)
    return amounts


def _balance(
    resources: dict[str, Any], limits: dict[str, int], requests: dict[str, int], at: At, warnings: list[str]
) -> None:
    """Make requests and limits agree: at most the limits, and equal to them for what cannot be overcommitted."""
    for name, limit in limits.items():
        request = requests.get(name)
        if request is None:
            resources["requests"] = {**(resources.get("requests") or {}), name: resources["limits"][name]}
        elif _is_fixed(name) and request != limit:
            raise at["requests"][name].error(
                resources["requests"][name], f"the same as limits[{name}], which is {resources['limits'][name]}"
            )
        elif request > limit:
            raise at["requests"][name].error(
                resources["requests"][name], f"at most limits[{name}], which is {resources['limits'][name]}"
            )
    for name in requests:
        if name not in limits and _is_fixed(name):
            value = resources["requests"][name]
            resources["limits"] = {**(resources.get("limits") or {}), name: value}
            warnings.append(
                f"{at.subject}: {at.path}.limits has no {name}: the request of {value} is taken for the limit; "
                "Kubernetes would refuse it"
            )


def _is_fixed(resource: str) -> bool:
    """Return whether a resource cannot be overcommitted: what a container requests of it is its limit."""
    return resource not in ("cpu", "memory", "ephemeral-storage")
