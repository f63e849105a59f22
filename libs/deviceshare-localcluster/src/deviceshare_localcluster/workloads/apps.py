"""Deployment, ReplicaSet and StatefulSet.

Source: kubernetes/kubernetes pkg/controller/{deployment,replicaset,statefulset} (names, labels, owners, order). A new
template of a Deployment replaces all pods at once: ``maxSurge`` and ``maxUnavailable`` are not played.
"""

from collections.abc import Mapping
from typing import Any

from deviceshare_cluster.interface import Object

from deviceshare_localcluster.kinds import KINDS
from deviceshare_localcluster.names import template_hash
from deviceshare_localcluster.owned_objects import child
from deviceshare_localcluster.workloads.model import (
    Desired,
    Owned,
    kept_pods,
    pod_of,
    replica_names,
    whole,
    with_metadata,
)
from deviceshare_localcluster.workloads.owner_groups import join, owner_group

HASH = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"
CONTROLLER_HASH = "controller-revision-hash"
POD_NAME = "statefulset.kubernetes.io/pod-name"
POD_INDEX = "apps.kubernetes.io/pod-index"
_HISTORY = 10
_MAX_ENDED = 100
"""Ended pods of a ReplicaSet. Kubernetes' garbage collector of pods has a limit for all pods of a cluster."""
_CLAIM = "PersistentVolumeClaim"


def deployment(obj: Object, owned: Owned) -> Desired:
    """Return the ReplicaSets of a Deployment: that of its template, and earlier ones without pods."""
    spec, metadata = obj["spec"], obj["metadata"]
    current = f"{metadata['name']}-{template_hash(spec['template'])}"
    of_name = {each["metadata"]["name"]: each for each in owned.workloads}
    if spec.get("paused") and current not in of_name and of_name:
        return Desired(updated=[_scaled(each, each["spec"]["replicas"]) for each in owned.workloads])
    old = sorted((each for name, each in of_name.items() if name != current), key=_revision)
    history = whole(spec.get("revisionHistoryLimit"), _HISTORY)
    kept = [_scaled(each, 0) for each in (old[-history:] if history else [])]
    if current in of_name:
        newest = _scaled(of_name[current], whole(spec.get("replicas"), 1))
    else:
        newest = _replica_set(obj, current, 1 + max(map(_revision, old), default=0))
    return Desired(updated=[newest, *kept])


def _replica_set(obj: Object, name: str, revision: int) -> Object:
    spec = obj["spec"]
    of_template = {HASH: template_hash(spec["template"])}
    template = with_metadata(spec["template"], of_template)
    selector = spec["selector"]
    selector = {**selector, "matchLabels": {**(selector.get("matchLabels") or {}), **of_template}}
    annotations = {
        key: value
        for key, value in (obj["metadata"].get("annotations") or {}).items()
        if not key.startswith("kubectl.kubernetes.io/")
    }
    return child(
        obj,
        "ReplicaSet",
        name,
        {"replicas": whole(spec.get("replicas"), 1), "selector": selector, "template": template},
        labels=template["metadata"]["labels"],
        annotations={**annotations, REVISION: str(revision)},
    )


def _scaled(replica_set: Object, replicas: int) -> Object:
    metadata = {
        field: replica_set["metadata"][field]
        for field in ("name", "namespace", "labels", "annotations", "ownerReferences")
        if field in replica_set["metadata"]
    }
    kind = KINDS["ReplicaSet"]
    spec = {**replica_set["spec"], "replicas": replicas}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "spec": spec}


def _revision(replica_set: Object) -> int:
    text = (replica_set["metadata"].get("annotations") or {}).get(REVISION, "")
    return int(text) if text.isdecimal() else 0


def replica_set(obj: Object, owned: Owned) -> Desired:
    """Return the pods of a ReplicaSet; failed pods are replaced, and the newest stay."""
    spec, metadata = obj["spec"], obj["metadata"]
    namespace, name = metadata["namespace"], metadata["name"]
    count = whole(spec.get("replicas"), 1)
    group = owner_group(obj, spec["template"]) if count else None
    names = replica_names(f"{name}-", count, owned.pods, namespace, is_taken=owned.is_taken)
    pods = [join(pod_of(obj, spec["template"], each), group) for each in names]
    return Desired(pods, [group] if group else [], kept_pods(namespace, owned.pods, _MAX_ENDED))


def stateful_set(obj: Object, owned: Owned) -> Desired:
    """Return the pods of a StatefulSet: one after the other, unless they are managed in parallel.

    A pod that has ended, or has an earlier template, is deleted, and created again; of running pods one at a time.
    """
    spec, metadata = obj["spec"], obj["metadata"]
    ordered = spec.get("podManagementPolicy") != "Parallel"
    count, start = whole(spec.get("replicas"), 1), whole((spec.get("ordinals") or {}).get("start"), 0)
    revision = f"{metadata['name']}-{template_hash(spec['template'])}"
    names = [f"{metadata['name']}-{number}" for number in range(start, start + count)]
    group = owner_group(obj, spec["template"]) if count else None
    gone = {name for name in names if name in owned.pods and owned.pods[name].ended}
    if not gone and (spec.get("updateStrategy") or {}).get("type") != "OnDelete":
        stale = [name for name in names if name in owned.pods and owned.pods[name].revision not in ("", revision)]
        others = all(owned.pods[name].phase == "Running" for name in names if name in owned.pods)
        gone = set(stale[-1:]) if others else {name for name in stale if owned.pods[name].phase != "Running"}
    wanted = []
    for name in names:
        if name not in gone:
            wanted.append(name)
        if ordered and (name in gone or name not in owned.pods or owned.pods[name].phase != "Running"):
            break
    if ordered:
        wanted += [name for name in names if name in owned.pods and name not in wanted and name not in gone]
    claims = [claim for name in wanted for claim in _claims(obj, name)] if _CLAIM in KINDS else []
    pods = [_ordinal_pod(obj, name, revision, group) for name in wanted]
    return Desired([*claims, *pods], [group] if group else [])


def _ordinal_pod(obj: Object, name: str, revision: str, group: Object | None) -> Object:
    spec = obj["spec"]
    index = name.rpartition("-")[2]
    pod = pod_of(obj, spec["template"], name, {CONTROLLER_HASH: revision, POD_NAME: name, POD_INDEX: index})
    pod["spec"]["hostname"] = name
    if spec.get("serviceName"):
        pod["spec"]["subdomain"] = spec["serviceName"]
    for template in spec.get("volumeClaimTemplates") or ():
        volume = template["metadata"]["name"]
        others = [each for each in pod["spec"].get("volumes") or () if each.get("name") != volume]
        claim = {"name": volume, "persistentVolumeClaim": {"claimName": f"{volume}-{name}"}}
        pod["spec"]["volumes"] = [*others, claim]
    return join(pod, group)


def _claims(obj: Object, pod: str) -> list[Object]:
    """Return the PersistentVolumeClaims of a pod, which outlive it."""
    found = []
    for template in obj["spec"].get("volumeClaimTemplates") or ():
        given: Mapping[str, Any] = template["metadata"]
        metadata = {"name": f"{given['name']}-{pod}", "namespace": obj["metadata"]["namespace"]}
        labels = {**(given.get("labels") or {}), **(obj["spec"]["selector"].get("matchLabels") or {})}
        if labels:
            metadata["labels"] = labels
        found.append({"apiVersion": "v1", "kind": _CLAIM, "metadata": metadata, "spec": template.get("spec") or {}})
    return found
