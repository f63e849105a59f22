"""The plugins for volumes, one node and one volume at a time, on plain Kubernetes objects.

Written from the documentation of the rules (tests/data/kube-scheduler/README.md), and independent of the library: it
shares no code with it, not even the decoding of objects.
"""

from typing import Any, NamedTuple

from support.plain_inter_pod import labels_of, namespace_of, selector_matches

Object = dict[str, Any]

NOT_FOUND = 'persistentvolumeclaim "{}" not found'
DISK = "node(s) had no available disk"
ONCE = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)
MANY = "node(s) exceed max volume count"
AFFINITY = "node(s) didn't match PersistentVolume's node affinity"
UNBOUND = "node(s) didn't find available persistent volumes to bind"
GONE = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
ZONE = "node(s) had no available volume zone"
GIB = 2**30


class PlainStorage(NamedTuple):
    """Objects by name: nodes, pods with a node, claims by ``namespace/name``, volumes, classes, CSINodes."""

    nodes: dict[str, Object]
    pods: dict[str, Object]
    claims: dict[str, Object]
    volumes: dict[str, Object]
    classes: dict[str, Object]
    csi_nodes: dict[str, Object]


def claims_of(pod: Object) -> list[tuple[str, bool]]:
    """Return the claims of a pod, and whether they are of ephemeral volumes."""
    namespace, found = namespace_of(pod), []
    for volume in pod["spec"].get("volumes") or ():
        if "persistentVolumeClaim" in volume:
            found.append((f"{namespace}/{volume['persistentVolumeClaim']['claimName']}", False))
        elif "ephemeral" in volume:
            found.append((f"{namespace}/{pod['metadata']['name']}-{volume['name']}", True))
    return found


def owned(claim: Object, pod: Object) -> bool:
    owners = claim["metadata"].get("ownerReferences") or ()
    return any(each.get("controller") and each["uid"] == pod["metadata"]["uid"] for each in owners)


def bound(claim: Object) -> bool:
    annotations = claim["metadata"].get("annotations") or {}
    return bool(claim["spec"].get("volumeName")) and "pv.kubernetes.io/bind-completed" in annotations


def waits(storage: PlainStorage, claim: Object) -> bool:
    found = storage.classes.get(claim["spec"].get("storageClassName", ""))
    return found is not None and found["volumeBindingMode"] == "WaitForFirstConsumer"


def size(obj: Object) -> int:
    amounts = obj["spec"].get("capacity") or obj["spec"]["resources"]["requests"]
    return int(amounts["storage"].removesuffix("Gi"))


def node_matches(terms: list[Object], node: Object) -> bool:
    labels = labels_of(node)
    for term in terms:
        expressions = term.get("matchExpressions") or []
        if expressions and all(_meets(each, labels) for each in expressions):
            return True
    return False


def _meets(expression: Object, labels: dict[str, str]) -> bool:
    if expression["operator"] in ("Gt", "Lt"):
        value, limit = labels.get(expression["key"], ""), int(expression["values"][0])
        if not value.lstrip("-").isdigit():
            return False
        return int(value) > limit if expression["operator"] == "Gt" else int(value) < limit
    return selector_matches({"matchExpressions": [expression]}, labels)


def allows(volume: Object, node: Object) -> bool:
    affinity = volume["spec"].get("nodeAffinity")
    return affinity is None or node_matches(affinity["required"]["nodeSelectorTerms"], node)


def rejections(storage: PlainStorage, pod: Object) -> dict[str, str]:
    """Return why plugins reject the pod as a whole."""
    found: dict[str, str] = {}
    claims = [(key, ephemeral, storage.claims.get(key)) for key, ephemeral in claims_of(pod)]
    for key, ephemeral, claim in claims:
        name = key.partition("/")[2]
        if claim is None and not ephemeral:
            found.setdefault("VolumeRestrictions", NOT_FOUND.format(name))
        if "VolumeBinding" not in found and (text := _unusable(name, claim, pod, ephemeral=ephemeral)):
            found["VolumeBinding"] = text
        if not ephemeral and "VolumeZone" not in found and (text := _without_zone(storage, name, claim)):
            found["VolumeZone"] = text
    if "VolumeBinding" not in found:
        for _, _, claim in claims:
            delayed = not claim["spec"].get("volumeName") and waits(storage, claim)
            if not bound(claim) and not delayed:
                found["VolumeBinding"] = "pod has unbound immediate PersistentVolumeClaims"
    return found


def _unusable(name: str, claim: Object | None, pod: Object, *, ephemeral: bool) -> str:
    if claim is None:
        waiting = f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"'
        return waiting if ephemeral else NOT_FOUND.format(name)
    if claim["status"].get("phase") == "Lost":
        volume = claim["spec"].get("volumeName", "")
        return f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{volume}"'
    if claim["metadata"].get("deletionTimestamp"):
        return f'persistentvolumeclaim "{name}" is being deleted'
    if ephemeral and not owned(claim, pod):
        namespace = namespace_of(pod)
        of_pod = f"{namespace}/{pod['metadata']['name']}"
        return f"PVC {namespace}/{name} was not created for pod {of_pod} (pod is not owner)"
    return ""


def _without_zone(storage: PlainStorage, name: str, claim: Object | None) -> str:
    if claim is None:
        return NOT_FOUND.format(name)
    volume, class_name = claim["spec"].get("volumeName", ""), claim["spec"].get("storageClassName", "")
    if volume:
        return "" if volume in storage.volumes else f'persistentvolume "{volume}" not found'
    if not class_name:
        return "PersistentVolumeClaim had no pv name and storageClass name"
    if class_name not in storage.classes:
        return f'storageclass.storage.k8s.io "{class_name}" not found'
    return "" if waits(storage, claim) else "PersistentVolume had no name"


def reasons(storage: PlainStorage, pod: Object, node: Object) -> dict[str, list[str]]:
    """Return why the plugins that do not reject the pod as a whole refuse a node."""
    rejected = rejections(storage, pod)
    found = {
        "VolumeRestrictions": _restrictions(storage, pod, node),
        "NodeVolumeLimits": _limits(storage, pod, node),
        "VolumeBinding": [] if "VolumeBinding" in rejected else binding(storage, pod, node)[0],
        "VolumeZone": [] if "VolumeZone" in rejected else _zones(storage, pod, node),
    }
    return {plugin: texts for plugin, texts in found.items() if texts and plugin not in rejected}


def pods_on(storage: PlainStorage, node: Object) -> list[Object]:
    name = node["metadata"]["name"]
    return [pod for pod in storage.pods.values() if pod["spec"]["nodeName"] == name]


def _restrictions(storage: PlainStorage, pod: Object, node: Object) -> list[str]:
    for volume in pod["spec"].get("volumes") or ():
        for other in pods_on(storage, node):
            if any(_conflicts(volume, each) for each in other["spec"].get("volumes") or ()):
                return [DISK]
    for key, ephemeral in claims_of(pod):
        claim = storage.claims.get(key)
        if ephemeral or claim is None or "ReadWriteOncePod" not in claim["spec"]["accessModes"]:
            continue
        for other in storage.pods.values():
            if other["spec"]["nodeName"] in storage.nodes and (key, False) in claims_of(other):
                return [ONCE]
    return []


def _conflicts(one: Object, other: Object) -> bool:
    for kind, name in (("gcePersistentDisk", "pdName"), ("iscsi", "iqn"), ("awsElasticBlockStore", "volumeID")):
        if kind in one and kind in other and one[kind][name] == other[kind][name]:
            return kind == "awsElasticBlockStore" or not (one[kind].get("readOnly") and other[kind].get("readOnly"))
    if "rbd" in one and "rbd" in other:
        a, b = one["rbd"], other["rbd"]
        same = set(a["monitors"]) & set(b["monitors"]) and a["image"] == b["image"]
        return bool(same) and a.get("pool", "rbd") == b.get("pool", "rbd") and not (a["readOnly"] and b["readOnly"])
    return False


def attachment(storage: PlainStorage, claim: Object) -> tuple[str, str] | None:
    volume = storage.volumes.get(claim["spec"].get("volumeName", ""))
    if volume is not None:
        csi = volume["spec"].get("csi")
        return (csi["driver"], csi["volumeHandle"]) if csi else None
    found = storage.classes.get(claim["spec"].get("storageClassName", ""))
    key = f"unbound {claim['metadata']['namespace']}/{claim['metadata']['name']}"
    return (found["provisioner"], key) if found else None


def _limits(storage: PlainStorage, pod: Object, node: Object) -> list[str]:
    new = set()
    for key, ephemeral in claims_of(pod):
        claim, name = storage.claims.get(key), key.partition("/")[2]
        if claim is None:
            return [f"looking up PVC {key}: {NOT_FOUND.format(name)}"]
        if ephemeral and not owned(claim, pod):
            ref = f"{namespace_of(pod)}/{pod['metadata']['name']}"
            return [f"PVC {key} was not created for pod {ref} (pod is not owner)"]
        new.add(attachment(storage, claim))
    attached = set()
    for other in pods_on(storage, node):
        claims = (storage.claims.get(key) for key, _ in claims_of(other))
        attached |= {attachment(storage, claim) for claim in claims if claim is not None}
    csi_node = storage.csi_nodes.get(node["metadata"]["name"], {"spec": {"drivers": []}})
    for driver in csi_node["spec"]["drivers"]:
        most = (driver.get("allocatable") or {}).get("count")
        more = [each for each in new - attached if each is not None and each[0] == driver["name"]]
        has = [each for each in attached if each is not None and each[0] == driver["name"]]
        if most is not None and more and len(has) + len(more) > most:
            return [MANY]
    return []


def binding(storage: PlainStorage, pod: Object, node: Object) -> tuple[list[str], dict[str, str], set[str]]:
    """Return why the plugin refuses a node; the volume for each unbound claim; the claims that are provisioned."""
    claims = [storage.claims[key] for key, _ in claims_of(pod)]
    conflict, gone = False, False
    for claim in filter(bound, claims):
        volume = storage.volumes.get(claim["spec"]["volumeName"])
        if volume is None:
            gone = True
            break
        if not allows(volume, node):
            conflict = True
            break
    static: dict[str, str] = {}
    taken: set[str] = set()
    provision: list[Object] = []
    fits = True
    unbound = sorted((claim for claim in claims if not bound(claim)), key=size)
    for claim in unbound:
        selected = (claim["metadata"].get("annotations") or {}).get("volume.kubernetes.io/selected-node")
        if selected is not None:
            fits = fits and selected == node["metadata"]["name"]
            provision.append(claim)
            continue
        volume = _match(storage, claim, node, taken)
        if volume is None:
            provision.append(claim)
        else:
            # A claim that the pod names twice takes two volumes, as in kube-scheduler.
            taken.add(volume)
            static[_key(claim)] = volume
    fits = fits and all(_can_provision(storage, claim, node) for claim in provision)
    texts = [AFFINITY] * conflict + [UNBOUND] * (not fits) + [GONE] * gone
    return texts, static, {_key(claim) for claim in provision}


def _key(claim: Object) -> str:
    return f"{claim['metadata']['namespace']}/{claim['metadata']['name']}"


def _match(storage: PlainStorage, claim: Object, node: Object, taken: set[str]) -> str | None:
    best: Object | None = None
    spec = claim["spec"]
    for volume in storage.volumes.values():
        reference = volume["spec"].get("claimRef")
        reserved = reference is not None and (
            f"{reference['namespace']}/{reference['name']}" == _key(claim)
            and reference.get("uid", claim["metadata"]["uid"]) == claim["metadata"]["uid"]
        )
        if volume["metadata"]["name"] in taken or (reference is not None and not reserved):
            continue
        if volume["spec"].get("storageClassName", "") != spec.get("storageClassName", "") or size(volume) < size(claim):
            continue
        if volume["spec"].get("volumeMode", "Filesystem") != spec.get("volumeMode", "Filesystem"):
            continue
        if reserved:
            return volume["metadata"]["name"] if allows(volume, node) else None
        if volume["status"]["phase"] != "Available" or not allows(volume, node):
            continue
        if "selector" in spec and not selector_matches(spec["selector"], labels_of(volume)):
            continue
        if not set(spec["accessModes"]) <= set(volume["spec"]["accessModes"]):
            continue
        if best is None or size(volume) < size(best):
            best = volume
    return None if best is None else best["metadata"]["name"]


def _can_provision(storage: PlainStorage, claim: Object, node: Object) -> bool:
    found = storage.classes[claim["spec"]["storageClassName"]]
    if found["provisioner"] == "kubernetes.io/no-provisioner":
        return False
    terms = found.get("allowedTopologies")
    if not terms:
        return True
    labels = labels_of(node)
    return any(
        all(labels.get(each["key"]) in each["values"] for each in term["matchLabelExpressions"])
        for term in terms
        if term["matchLabelExpressions"]
    )


def _zones(storage: PlainStorage, pod: Object, node: Object) -> list[str]:
    labels = labels_of(node)
    old = "failure-domain.beta.kubernetes.io/"
    keys = [f"{prefix}{what}" for prefix in (old, "topology.kubernetes.io/") for what in ("zone", "region")]
    if not any(key in labels for key in keys):
        return []
    for claim_key, ephemeral in claims_of(pod):
        volume = storage.volumes.get(storage.claims[claim_key]["spec"].get("volumeName", "")) if not ephemeral else None
        for key in keys if volume is not None else ():
            if key not in labels_of(volume):
                continue
            has = labels.get(key, labels.get(key.replace(old, "topology.kubernetes.io/")))
            zones = [part.strip() for part in labels_of(volume)[key].split("__")]
            # A label with an empty zone is ignored.
            if "" not in zones and has not in zones:
                return [ZONE]
    return []
