"""Every manifest of ``examples/`` on a real API server with the manifests of deploy/, as a tenant creates it.

A tenant has the rules of the role ``edit`` in its namespaces. Of workloads whose kinds the server does not have, the
pods and PodGroups that their controllers make are created, also as the tenant: for the policies controllers are users.
"""

import json
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from deviceshare.model import CARD_POLICY, NODE_POLICY
from deviceshare_cluster.kube.kinds import KINDS, ApiKind
from deviceshare_localcluster import Manifest, read_manifests
from deviceshare_localcluster.kinds import kind_of
from deviceshare_localcluster.workloads import WORKLOADS
from deviceshare_localcluster.workloads.expanding import all_objects
from support import deploy
from support.apiserver import ApiServer
from support.definitions import installed
from support.example_cluster import EXAMPLES, admitted, load

Object = dict[str, Any]
Send = Callable[[Object], str]
MANIFESTS = read_manifests(EXAMPLES).manifests
NAMESPACES = ("default", "vnpu", "kube-system", "mindx-dl")
FOR_TENANTS = ("Pod", "PodGroup", "PersistentVolumeClaim", "Deployment", "StatefulSet", "KubernetesJob")
PLACES = {
    **KINDS,
    "Deployment": ApiKind("apps/v1", "deployments", namespaced=True),
    "StatefulSet": ApiKind("apps/v1", "statefulsets", namespaced=True),
    "KubernetesJob": ApiKind("batch/v1", "jobs", namespaced=True),
}
BY_POLICY = "ValidatingAdmissionPolicy 'deviceshare-annotations'"
REFUSED = {
    **dict.fromkeys(("npu-row-04-a", "npu-row-04-b", "npu-row-11-a"), BY_POLICY),
    "specific-gpu-pod": "Limit must be set for non overcommitable resources",
}
"""The pods that are for local clusters alone, says examples/README.md, and why."""


def named(obj: Object) -> Object:
    """Return an object with the name that the API server would make of ``generateName``."""
    metadata = obj["metadata"]
    return {**obj, "metadata": {"name": f"{metadata.get('generateName')}x", **metadata}}


def sent(obj: Object) -> Iterator[Object]:
    """Yield what reaches the API server of an example: itself, and what controllers make of it."""
    stored = admitted(named(obj))
    kind = kind_of(stored)
    if kind in PLACES and kind != "Job":
        yield obj
    if kind in WORKLOADS:
        for made in all_objects(stored, {}, admitted):
            kept = ("name", "namespace", "labels", "annotations")
            yield {**made, "metadata": {key: made["metadata"][key] for key in kept if made["metadata"].get(key)}}


@pytest.fixture(scope="module")
def create(apiserver: ApiServer) -> Iterator[Send]:
    """Give what creates an object, without effect, as the tenant or else the admin, and returns why it is refused."""
    objects = deploy.everything()
    definitions = [obj for obj in objects if obj["kind"] == "CustomResourceDefinition"]
    version = "rbac.authorization.k8s.io/v1"
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"namespace": "default", "name": "tenant"}}
    subject = {"kind": "ServiceAccount", "namespace": "default", "name": "tenant"}
    groups = {"apiGroups": ["scheduling.volcano.sh"], "resources": ["podgroups"], "verbs": ["*"]}
    role = {"apiVersion": version, "kind": "ClusterRole", "metadata": {"name": "podgroups"}, "rules": [groups]}
    bindings = [
        {
            "apiVersion": version, "kind": "RoleBinding",
            "metadata": {"namespace": namespace, "name": f"tenant-{name.rpartition(':')[2]}"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
            "subjects": [subject],
        }
        for namespace in NAMESPACES for name in ("system:aggregate-to-edit", "podgroups")
    ]  # fmt: skip
    deploy.apply(apiserver, *deploy.namespaces(*NAMESPACES, "deviceshare-system", "volcano-system"))
    with installed(apiserver, *definitions), deploy.applied(apiserver, account, role, *bindings):
        queues = [one.object for one in MANIFESTS if one.object["kind"] == "Queue"]
        for queue in queues:
            apiserver.request("POST", PLACES["Queue"].collection(), queue)
        with deploy.applied(apiserver, *deploy.policies()):
            deploy.await_policies(apiserver)
            tokens = {True: deploy.token(apiserver, "default", "tenant"), False: apiserver.token}
            yield lambda obj: refusal(apiserver, tokens, obj)
        deploy.await_policies(apiserver, denied=False)


def refusal(server: ApiServer, tokens: dict[bool, str], obj: Object) -> str:
    kind = kind_of(admitted(named(obj)))
    place = PLACES[kind]
    namespace = obj["metadata"].get("namespace", "default")
    request = urllib.request.Request(
        f"{server.url}{place.collection(namespace)}?dryRun=All&fieldValidation=Strict",
        method="POST",
        data=json.dumps(obj).encode(),
        headers={"Authorization": f"Bearer {tokens[kind in FOR_TENANTS]}", "Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, context=server.tls(), timeout=30):
            return ""
    except urllib.error.HTTPError as error:
        message = str(json.loads(error.read())["message"])
        return "" if error.code == 409 and kind == "Queue" else message


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda one: one.origin.locate(""))
def test_an_example_is_accepted_unless_its_page_says_otherwise(create: Send, manifest: Manifest) -> None:
    objects = list(sent(manifest.object))
    assert objects
    for obj in objects:
        refused = create(obj)
        reason = REFUSED.get(obj["metadata"].get("name", ""), "")
        assert reason in refused if reason else refused == "", obj


@pytest.mark.parametrize("name", [NODE_POLICY, CARD_POLICY])
def test_pod_templates_may_select_policies(create: Send, name: str) -> None:
    deployment = json.loads(json.dumps(load("workloads/controllers/deployment.yaml")))
    template = deployment["spec"]["template"]["metadata"]
    template["annotations"] = {**template.get("annotations", {}), name: "spread"}
    objects = list(sent(deployment))
    assert [obj for obj in objects if obj["kind"] == "Pod" and obj["metadata"]["annotations"][name] == "spread"]
    assert [create(obj) for obj in objects] == [""] * len(objects)
