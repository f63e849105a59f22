"""The checks and defaults of the API server for pods.

Source: Kubernetes' pod validation and defaulting, as far as they affect scheduling. One intended difference: Kubernetes
refuses an extended resource with a request and no limit; here the request becomes the limit, with a warning, since
published examples contain such pods.
"""

from deviceshare.model import RequestError, is_native, mebibytes_hint, to_amount

from deviceshare_localcluster.checks import ManifestField
from deviceshare_localcluster.device_admission import admit_claims_of_pod

DEFAULT_SCHEDULER = "default-scheduler"
_RESTART_POLICIES = ("Always", "OnFailure", "Never")
_PHASES = ("Pending", "Running", "Succeeded", "Failed", "Unknown")


def admit_pod_spec(spec: ManifestField) -> None:
    """Check the spec of a pod or of a template, and fill in its defaults, in place. Raises RequestError."""
    if not isinstance(spec.value, dict) or not spec.value:
        raise spec.error("a pod's spec with containers")
    names: set[str] = set()
    spec["containers"].some_items("at least one container with a name and an image")
    for field in ("containers", "initContainers"):
        for container in spec[field].items():
            _admit_container(container, names)
    spec.value.setdefault("restartPolicy", "Always")
    spec["restartPolicy"].choice(_RESTART_POLICIES)
    for field in ("schedulerName", "nodeName", "priorityClassName", "hostname", "subdomain"):
        spec[field].optional_text()
    spec["nodeSelector"].texts()
    for field in ("tolerations", "schedulingGates", "volumes"):
        for item in spec[field].items():
            item.mapping()
    for volume in spec["volumes"].items():
        _admit_ephemeral(volume)
    spec["affinity"].optional_mapping()


def _admit_ephemeral(volume: ManifestField) -> None:
    """Check what a claim is made of: the name of a generic ephemeral volume, and its template."""
    ephemeral = volume["ephemeral"]
    if ephemeral.value is None:
        return
    volume["name"].label()
    ephemeral.mapping()
    template = ephemeral["volumeClaimTemplate"]
    template.mapping("the template of a PersistentVolumeClaim")
    template["spec"].mapping("the spec of a PersistentVolumeClaim")
    template["metadata"].check_metadata()


def admit_pod(pod: ManifestField) -> None:
    """Check a pod and fill in its defaults, in place. Raises RequestError."""
    admit_pod_spec(pod["spec"])
    admit_claims_of_pod(pod)
    spec = pod.value["spec"]
    if not spec.get("schedulerName"):
        spec["schedulerName"] = DEFAULT_SCHEDULER
    _merge_label_keys(pod)
    status = pod.ensured("status")
    # There is no kubelet to report the phase: a pod that is bound runs.
    status.value.setdefault("phase", "Running" if spec.get("nodeName") else "Pending")
    status["phase"].choice(_PHASES)


def _merge_label_keys(pod: ManifestField) -> None:
    """Add ``matchLabelKeys`` and ``mismatchLabelKeys`` of inter-pod affinity to the selectors of its terms.

    Source: Kubernetes pkg/registry/core/pod/strategy.go (applyMatchLabelKeysAndMismatchLabelKeys).
    """
    labels = pod["metadata"]["labels"].optional_mapping()
    for kind in ("podAffinity", "podAntiAffinity"):
        affinity = pod["spec"]["affinity"][kind]
        terms = affinity["requiredDuringSchedulingIgnoredDuringExecution"].items()
        preferred = affinity["preferredDuringSchedulingIgnoredDuringExecution"].items()
        for term in (*terms, *(each["podAffinityTerm"] for each in preferred)):
            selector = term["labelSelector"]
            if not isinstance(selector.value, dict):
                continue
            for field, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")):
                added = [
                    {"key": key.value, "operator": operator, "values": [labels[key.value]]}
                    for key in term[field].items()
                    if isinstance(key.value, str) and key.value in labels
                ]
                if added:
                    given = [each.value for each in selector["matchExpressions"].items()]
                    selector.value["matchExpressions"] = [*given, *added]


def _admit_container(container: ManifestField, names: set[str]) -> None:
    values = container.mapping("a container with a name and an image")
    container["name"].own_label(names, "container of the pod")
    container["image"].text("the image to run")
    if "resources" in values:
        resources = container["resources"]
        resources.optional_mapping()
        limits, requests = _amounts(resources["limits"]), _amounts(resources["requests"])
        for resource, amount in limits.items():
            if hint := mebibytes_hint(resource, amount):
                resources["limits"][resource].warn(f"{resources.path}.limits: {hint}")
        if limits or requests:
            _balance(resources, limits, requests)


def _amounts(field: ManifestField) -> dict[str, int]:
    field.optional_mapping("a mapping of resource names to amounts")
    return admit_amounts(field)


def admit_amounts(field: ManifestField) -> dict[str, int]:
    """Check amounts by resource name, convert each to text in place, as the API server, and return them.

    Units: millicores, bytes or counts. Raises RequestError.
    """
    amounts, given = {}, field.optional_mapping()
    for name, value in given.items():
        if not is_native(name) and "/" not in name and name != "pods":
            raise field.holding(name).error("cpu, memory or a name with a domain, such as nvidia.com/gpu")
        amounts[name] = to_amount(name, value, field.source.subject, field[name].path, RequestError)
        given[name] = value if isinstance(value, str) else str(value)
    return amounts


def _balance(resources: ManifestField, limits: dict[str, int], requests: dict[str, int]) -> None:
    """Check and default requests: at most the limits, and equal to them for resources without overcommit."""
    values = resources.value
    for name, limit in limits.items():
        request = requests.get(name)
        if request is None:
            values["requests"] = {**(values.get("requests") or {}), name: values["limits"][name]}
        elif _is_fixed(name) and request != limit:
            expected = f"the same as limits[{name}], which is {values['limits'][name]}"
            raise resources["requests"][name].error(expected)
        elif request > limit:
            raise resources["requests"][name].error(f"at most limits[{name}], which is {values['limits'][name]}")
    for name in requests:
        if name not in limits and _is_fixed(name):
            value = values["requests"][name]
            values["limits"] = {**(values.get("limits") or {}), name: value}
            resources["requests"][name].warn(
                f"{resources.path}.limits has no {name}: the request of {value} is taken for the limit; "
                "Kubernetes would refuse it"
            )


def _is_fixed(resource: str) -> bool:
    """Return whether a resource cannot be overcommitted, so that request and limit are equal."""
    return resource not in ("cpu", "memory", "ephemeral-storage")
