"""The admission policy on a real API server: forged annotations are refused, those of users and the binder pass."""

import json
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from fnmatch import fnmatch
from typing import Any

import pytest
import yaml
from deviceshare.families.device_plugin import SERVED
from deviceshare.families.hami_gpu import wire as hami_gpu_wire
from deviceshare.families.hami_vnpu import wire as hami_vnpu_wire
from deviceshare.families.mindcluster import wire as mindcluster_wire
from deviceshare.families.vgpu import wire as vgpu_wire
from deviceshare.families.volcano_gpu import wire as gpu_share_wire
from deviceshare.model import FENCE
from deviceshare.model.signatures import SIGNATURE
from support import charts, deploy
from support.apiserver import ApiServer

NAMESPACE = "policy-test"
MERGE = "application/merge-patch+json"
BINDER = ("deviceshare-system", "binder")
PLUGINS = [
    ("kube-system", name)
    for name in (
        "volcano-device-plugin",
        "hami-ascend",
        "hami-device-plugin",
        "ascend-device-plugin-sa",
        "ascend-device-plugin-sa-310p",
    )
]
TENANT = (NAMESPACE, "tenant")

LIST = yaml.safe_load(charts.POD_ANNOTATIONS.read_text())
EXAMPLE = "Ascend910B3"
"""Stands for `*` in the names of the list."""
FORGED = {name.replace("*", EXAMPLE): "x" for name in LIST["reserved"]}
FORGED |= dict.fromkeys(
    ("deviceshare.io/signature", "deviceshare.io/fenced-claims", "hami.io/vgpu-devices-allocated"), "x"
)
FORGED["huawei.com/AscendReal"] = "Ascend310P-2c-100-0"
WISHES = {name.replace("*", EXAMPLE): "x" for name in (*LIST["users"], *LIST["usersUntilBound"])}

Send = Callable[..., int]


def as_account(server: ApiServer, namespace: str, name: str) -> Send:
    """Return what sends requests as a service account and returns the status, 403 where the policy refuses."""
    bearer = deploy.token(server, namespace, name)
    tls = ssl.create_default_context(cafile=str(server.directory / "certs" / "apiserver.crt"))

    def send(method: str, path: str, body: Any, content: str = "application/json") -> int:
        headers = {"Authorization": f"Bearer {bearer}", "Content-Type": content}
        request = urllib.request.Request(
            f"{server.url}{path}", method=method, data=json.dumps(body).encode(), headers=headers
        )
        try:
            with urllib.request.urlopen(request, context=tls, timeout=30) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            by_policy = "deviceshare-annotations" in json.loads(error.read())["message"]
            return error.code if by_policy or error.code != 403 else 401

    return send


def pod(name: str, **annotations: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE, "annotations": annotations},
        "spec": {"schedulerName": "volcano", "containers": [{"name": "c", "image": "busybox"}]},
    }


PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
OTHER_POLICIES = deploy.read(deploy.KUBERNETES / "base" / "policy-podgroups.yaml")


@pytest.fixture(scope="module")
def server(apiserver: ApiServer) -> Iterator[ApiServer]:
    """Give an API server with the policy, in which some accounts may do anything with pods."""
    rules = [{"apiGroups": [""], "resources": ["*"], "verbs": ["*"]}]
    role = {"kind": "ClusterRole", "metadata": {"name": "anything"}, "rules": rules}
    version = {"apiVersion": "rbac.authorization.k8s.io/v1"}
    who = [BINDER, *PLUGINS, TENANT]
    accounts = [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"namespace": namespace, "name": name}}
        for namespace, name in who
    ]
    binding = {
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "anything"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "anything"},
        "subjects": [{"kind": "ServiceAccount", "namespace": namespace, "name": name} for namespace, name in who],
    }
    policy = deploy.read(deploy.KUBERNETES / "base" / "policy-annotations.yaml")
    for name in ("volcano", "volcano-device-plugin", "hami", "hami-ascend", "mindcluster"):
        deploy.add_component([*policy, *OTHER_POLICIES], deploy.KUBERNETES / "trusted" / name)
    deploy.apply(apiserver, *deploy.namespaces(NAMESPACE, "deviceshare-system"))
    with deploy.applied(apiserver, *accounts, role | version, binding | version, *policy):
        tenant = as_account(apiserver, *TENANT)
        until = time.monotonic() + 60
        while tenant("POST", f"{PODS}?dryRun=All", pod("probe", **{"predicate-time": "1"})) != 403:
            assert time.monotonic() < until, "the policy does not come into force"
            time.sleep(0.1)
        yield apiserver
        for one in apiserver.request("GET", PODS)["items"]:
            apiserver.request("DELETE", f"{PODS}/{one['metadata']['name']}", {"gracePeriodSeconds": 0})
    # Other tests on this server create pods as they like.
    deploy.await_policies(apiserver, denied=False)


@pytest.fixture
def tenant(server: ApiServer) -> Send:
    return as_account(server, *TENANT)


def test_all_that_our_code_writes_of_pods_is_reserved():
    written = {
        vgpu_wire.NODE,
        vgpu_wire.TIME,
        vgpu_wire.IDS,
        vgpu_wire.INIT_IDS,
        vgpu_wire.TO_ALLOCATE,
        vgpu_wire.BIND_PHASE,
        vgpu_wire.BIND_TIME,
    }
    written |= {gpu_share_wire.PREDICATE_TIME, gpu_share_wire.ASSIGNED, SERVED, SIGNATURE, FENCE}
    written |= {mindcluster_wire.CORES, mindcluster_wire.PREDICATE_TIME, mindcluster_wire.REAL}
    written |= {
        hami_vnpu_wire.NODE,
        hami_vnpu_wire.TIME,
        hami_vnpu_wire.BIND_PHASE,
        hami_vnpu_wire.BIND_TIME,
        hami_vnpu_wire.PREDICATE_TIME,
    }
    written |= {hami_gpu_wire.TO_ALLOCATE, hami_gpu_wire.ALLOCATED}
    assert not {name for name in written if not any(fnmatch(name, pattern) for pattern in LIST["reserved"])}
    assert written.isdisjoint(LIST["users"])


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_annotation_is_refused_when_a_pod_is_created(tenant, name):
    assert tenant("POST", f"{PODS}?dryRun=All", pod("a", **{name: FORGED[name]})) == 403


@pytest.mark.parametrize("name", [*FORGED, "volcano.sh/gpu-index"])
def test_a_forged_annotation_is_refused_on_a_pod_that_is_created_bound(tenant, name):
    bound = pod("a", **{name: FORGED.get(name, "0")})
    bound["spec"]["nodeName"] = "n"
    assert tenant("POST", f"{PODS}?dryRun=All", bound) == 403
    del bound["metadata"]["annotations"]
    assert tenant("POST", f"{PODS}?dryRun=All", bound) == 201


def test_users_may_set_change_and_remove_their_annotations(tenant):
    assert tenant("POST", PODS, pod("wishes", **WISHES)) == 201
    changed = {
        "metadata": {"annotations": {**dict.fromkeys(WISHES, "other"), "mine": "x", "volcano.sh/gpu-index": "1"}}
    }
    assert tenant("PATCH", f"{PODS}/wishes", changed, MERGE) == 200
    nothing: dict[str, Any] = {"metadata": {"annotations": dict.fromkeys(WISHES)}}
    assert tenant("PATCH", f"{PODS}/wishes", nothing, MERGE) == 200


@pytest.mark.parametrize("resource", ["", "/status"])
def test_a_forged_annotation_is_refused_on_a_pod_that_exists_and_on_its_status(server, tenant, resource):
    name = f"exists{len(resource)}"
    assert tenant("POST", PODS, pod(name)) == 201
    for annotation, value in FORGED.items():
        patch = {"metadata": {"annotations": {annotation: value}}}
        assert tenant("PATCH", f"{PODS}/{name}{resource}", patch, MERGE) == 403, annotation
    whole = server.request("GET", f"{PODS}/{name}")
    whole["metadata"]["annotations"] = FORGED
    assert tenant("PUT", f"{PODS}/{name}{resource}", whole) == 403
    assert "annotations" not in server.request("GET", f"{PODS}/{name}")["metadata"]


def bind(name: str, **annotations: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, "namespace": NAMESPACE, "annotations": annotations},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "n"},
    }


@pytest.mark.parametrize("old_way", [False, True])
def test_a_forged_annotation_on_a_binding_is_refused_one_without_passes(server, tenant, old_way):
    name = f"bound-{old_way}".lower()
    path = f"/api/v1/namespaces/{NAMESPACE}/bindings" if old_way else f"{PODS}/{name}/binding"
    assert tenant("POST", PODS, pod(name)) == 201
    for annotation in (*FORGED, "volcano.sh/gpu-index"):
        assert tenant("POST", path, bind(name, **{annotation: "0"})) == 403, annotation
    assert "nodeName" not in server.request("GET", f"{PODS}/{name}")["spec"]
    assert tenant("POST", path, bind(name)) == 201


def test_the_binder_writes_them_with_the_binding_and_the_user_cannot_change_them_after(server, tenant):
    binder = as_account(server, *BINDER)
    assert tenant("POST", PODS, pod("ours", **{"volcano.sh/gpu-index": "0"})) == 201
    given = {**FORGED, "volcano.sh/gpu-index": "1"}
    assert binder("POST", f"{PODS}/ours/binding", bind("ours", **given)) == 201
    assert server.request("GET", f"{PODS}/ours")["metadata"]["annotations"] == given
    for annotation in given:
        for value in ("other", None):
            patch = {"metadata": {"annotations": {annotation: value}}}
            assert tenant("PATCH", f"{PODS}/ours", patch, MERGE) == 403, annotation
    assert tenant("PATCH", f"{PODS}/ours", {"metadata": {"annotations": {"mine": "x"}}}, MERGE) == 200


@pytest.mark.parametrize("account", PLUGINS)
def test_device_plugins_write_them(server, tenant, account):
    plugin = as_account(server, *account)
    assert tenant("POST", PODS, pod(account[1])) == 201
    assert plugin("PATCH", f"{PODS}/{account[1]}", {"metadata": {"annotations": FORGED}}, MERGE) == 200


def test_the_refusal_names_the_annotations(server, tenant):
    body = json.dumps(pod("a", **{"volcano.sh/vgpu-node": "n", "mine": "x"})).encode()
    with pytest.raises(urllib.error.HTTPError) as refused:
        server.request("POST", f"{PODS}?dryRun=All", json.loads(body))  # no exception for administrators
    message = json.loads(refused.value.read())["message"]
    assert message.endswith("written by the scheduler and the device plugins alone: volcano.sh/vgpu-node")


def test_a_pod_with_as_many_annotations_as_fit_is_still_judged(tenant):
    many = {f"a{number}": "" for number in range(20_000)}
    assert tenant("POST", f"{PODS}?dryRun=All", pod("many", **many)) == 201
    for name in ("volcano.sh/vgpu-ids-new", "huawei.com/Ascend910B3"):
        assert tenant("POST", f"{PODS}?dryRun=All", pod("many", **many, **{name: "x"})) == 403
    assert tenant("POST", PODS, pod("many", **many)) == 201
    patch = {"metadata": {"annotations": {"a0": "changed", "a1": None}}}
    assert tenant("PATCH", f"{PODS}/many", patch, MERGE) == 200
