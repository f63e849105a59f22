"""The manifests of deploy/kubernetes, as kustomize builds them, and on a real API server."""

import io
import runpy
import sys
import time
import urllib.error
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import pytest
import yaml
from deviceshare_cluster.kube.kinds import ApiKind
from support.agents.api import MERGE
from support.apiserver import ApiServer
from support.definitions import install

ROOT = Path(__file__).parents[2]
KUBERNETES = ROOT / "deploy" / "kubernetes"
Object = dict[str, Any]
APPLY = "application/apply-patch+yaml"
MOUNTS = "/etc/deviceshare/"
"""Where pods mount Secrets."""

_RBAC, _ADMISSION = "rbac.authorization.k8s.io/v1", "admissionregistration.k8s.io/v1"
_MONITORING = "monitoring.coreos.com/v1"
PLACES = {
    kind: ApiKind(version, plural, namespaced)
    for version, kind, plural, namespaced in (
        ("v1", "Namespace", "namespaces", False),
        ("v1", "ServiceAccount", "serviceaccounts", True),
        ("v1", "ConfigMap", "configmaps", True),
        ("v1", "Service", "services", True),
        ("apps/v1", "Deployment", "deployments", True),
        ("apps/v1", "StatefulSet", "statefulsets", True),
        ("batch/v1", "Job", "jobs", True),
        ("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets", True),
        ("scheduling.k8s.io/v1", "PriorityClass", "priorityclasses", False),
        ("autoscaling/v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers", True),
        ("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies", True),
        ("networking.k8s.io/v1", "Ingress", "ingresses", True),
        (_MONITORING, "ServiceMonitor", "servicemonitors", True),
        (_MONITORING, "PrometheusRule", "prometheusrules", True),
        (_RBAC, "ClusterRole", "clusterroles", False),
        (_RBAC, "ClusterRoleBinding", "clusterrolebindings", False),
        (_RBAC, "Role", "roles", True),
        (_RBAC, "RoleBinding", "rolebindings", True),
        (_ADMISSION, "ValidatingAdmissionPolicy", "validatingadmissionpolicies", False),
        (_ADMISSION, "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", False),
    )
}


def help_of(module: str, options: Sequence[str]) -> str:
    """Return the help of a program, which has accepted these options: argparse checks those before ``--help``."""
    shown = io.StringIO()
    with (
        mock.patch.object(sys, "argv", [module, *options, "--help"]),
        redirect_stdout(shown),
        warnings.catch_warnings(action="ignore", category=RuntimeWarning),  # a module that is imported already
        pytest.raises(SystemExit) as ended,
    ):
        runpy.run_module(module, run_name="__main__")
    assert ended.value.code == 0
    return shown.getvalue()


def read(path: Path) -> list[Object]:
    """Return the objects of a file, or of a directory with a kustomization and its components, in its order."""
    if path.is_file():
        return [obj for obj in yaml.load_all(path.read_text(), yaml.CSafeLoader) if obj]
    kustomization = yaml.safe_load((path / "kustomization.yaml").read_text())
    assert kustomization["kind"] == "Kustomization"
    found = [obj for name in kustomization["resources"] for obj in read(path / name)]
    for name in kustomization.get("components", ()):
        add_component(found, path / name)
    return found


def add_component(objects: list[Object], path: Path) -> None:
    """Apply a component to objects, in place: its patches add to lists."""
    component = yaml.safe_load((path / "kustomization.yaml").read_text())
    assert component["kind"] == "Component"
    for patch in component["patches"]:
        wanted = patch["target"]["kind"], patch["target"]["name"]
        (target,) = [obj for obj in objects if (obj["kind"], obj["metadata"]["name"]) == wanted]
        for change in yaml.safe_load(patch["patch"]):
            *fields, last = change["path"].strip("/").split("/")
            assert (change["op"], last) == ("add", "-")
            values: Any = target
            for field in fields:
                values = values[field]
            values.append(change["value"])


def everything() -> list[Object]:
    """Return all objects, each once: those for clusters with Volcano, trusting the device plugins of all vendors."""
    found: dict[Any, Object] = {}
    for name in ("with-volcano", "without-volcano", "mindcluster"):
        for obj in read(KUBERNETES / name):
            metadata = obj["metadata"]
            found.setdefault((obj["kind"], metadata.get("namespace", ""), metadata["name"]), obj)
    objects = list(found.values())
    for name in ("hami", "hami-ascend", "mindcluster"):
        add_component(objects, KUBERNETES / "trusted" / name)
    return objects


def policies() -> list[Object]:
    """Return the admission policies of clusters with Volcano, and their bindings."""
    return [obj for obj in everything() if obj["kind"].startswith("ValidatingAdmissionPolicy")]


def apply(server: ApiServer, *objects: Object) -> None:
    """Create objects; those that are there stay."""
    for obj in objects:
        try:
            server.request(
                "POST", f"{_collection(obj)}?fieldValidation=Strict", {**obj, "metadata": dict(obj["metadata"])}
            )
        except urllib.error.HTTPError as error:
            if error.code != 409:
                raise AssertionError(f"{obj['kind']} {obj['metadata']['name']}: {error.read().decode()}") from error
            error.close()


def is_read(variable: str) -> bool:
    """Return whether the code of a package names an environment variable, or the option that it stands for."""
    option = variable.removeprefix("DEVICESHARE_").lower().replace("_", "-")
    sources = (file.read_text() for part in ("libs", "services") for file in (ROOT / part).rglob("src/**/*.py"))
    return any(f'"{variable}"' in source or f'"{option}"' in source for source in sources)


def dry_run(server: ApiServer, *objects: Object) -> None:
    """Let the server check objects as ``kubectl apply --server-side --dry-run=server`` does; nothing is stored."""
    options = "dryRun=All&fieldManager=test&force=true&fieldValidation=Strict"
    for obj in objects:
        try:
            server.request("PATCH", f"{_collection(obj)}/{obj['metadata']['name']}?{options}", obj, APPLY)
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{obj['kind']} {obj['metadata']['name']}: {error.read().decode()}") from error


@contextmanager
def applied(server: ApiServer, *objects: Object) -> Iterator[None]:
    """Create objects and delete them at the end, except namespaces: no controller runs that would empty them."""
    apply(server, *objects)
    try:
        yield
    finally:
        for obj in reversed(objects):
            if obj["kind"] != "Namespace":
                server.request("DELETE", f"{_collection(obj)}/{obj['metadata']['name']}")


class Service(NamedTuple):
    """How a service is deployed: the arguments of its container, its variables, whether it may have a token."""

    arguments: list[str]
    variables: dict[str, str]
    has_token: bool


def service(name: str, mounted: Path | None = None) -> Service:
    """Return how the manifests start a service, on loopback and on free ports.

    ``mounted``: the directory in place of /etc/deviceshare, with the files of the Secrets that the pod mounts. Without
    it the services use a bus without users, and HTTP ports that are open on loopback.
    """
    (deployment,) = [o for o in everything() if o["kind"] == "Deployment" and o["metadata"]["name"] == name]
    pod = deployment["spec"]["template"]["spec"]
    assert pod["serviceAccountName"] == name
    (container,) = pod["containers"]
    given = {one["name"]: one.get("value", "") for one in container["env"]}
    if mounted is None:
        given = {key: value for key, value in given.items() if not value.startswith(MOUNTS)}
        given |= {"DEVICESHARE_HTTP_ACCESS": "", "DEVICESHARE_SIGNING_KEY": "a key that both of them have"}
    else:
        given = {key: value.replace(MOUNTS, f"{mounted}/") for key, value in given.items()}
    variables = given | {
        "DEVICESHARE_HEALTH_ADDRESS": "127.0.0.1",
        "DEVICESHARE_HEALTH_PORT": "0",
        "DEVICESHARE_METRICS_ADDRESS": "127.0.0.1",
        "DEVICESHARE_METRICS_PORT": "0",
        "KUBECONFIG": "/nowhere",
    }
    return Service(container["args"], variables, pod["automountServiceAccountToken"])


def mounts(name: str) -> dict[str, str]:
    """Return the Secrets that the pod of a service mounts, by the name of their directory in /etc/deviceshare."""
    (deployment,) = [o for o in everything() if o["kind"] == "Deployment" and o["metadata"]["name"] == name]
    pod = deployment["spec"]["template"]["spec"]
    secrets = {volume["name"]: volume["secret"]["secretName"] for volume in pod.get("volumes", ())}
    (container,) = pod["containers"]
    places = {mount["name"]: mount["mountPath"] for mount in container.get("volumeMounts", ())}
    return {places[volume].removeprefix(MOUNTS): secret for volume, secret in secrets.items()}


def install_all(server: ApiServer, *also: str) -> None:
    """Install everything, and the namespaces of others that it needs, and more of them."""
    objects = everything()
    for obj in objects:
        if obj["kind"] == "CustomResourceDefinition":
            install(server, obj)
    others = [obj for obj in objects if obj["kind"] != "CustomResourceDefinition"]
    apply(server, *namespaces("volcano-system", "mindx-dl", *also), *others)


def await_policies(server: ApiServer, *, denied: bool = True) -> None:
    """Wait until the admission policies are in force, or with ``denied`` false no more: both take a moment."""
    probe = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "probe", "namespace": "kube-system", "annotations": {"predicate-time": "1"}},
        "spec": {"containers": [{"name": "c", "image": "busybox"}]},
    }
    await_denial(server, "/api/v1/namespaces/kube-system/pods", probe, denied=denied)


def await_denial(server: ApiServer, path: str, obj: Object, *, denied: bool = True) -> None:
    """Wait until a policy refuses to create an object, or with ``denied`` false until none does."""
    until = time.monotonic() + 60
    while True:
        try:
            server.request("POST", f"{path}?dryRun=All", {**obj, "metadata": dict(obj["metadata"])})
            found = False
        except urllib.error.HTTPError as error:
            if error.code != 403:
                raise
            found = True
        if found is denied:
            return
        assert time.monotonic() < until, f"the policies do not {'come into' if denied else 'go out of'} force"
        time.sleep(0.1)


def create_node(server: ApiServer, node: Object) -> None:
    """Create a node with its status, which the API server accepts only on the status subresource."""
    server.request("POST", "/api/v1/nodes", node)
    server.request("PATCH", f"/api/v1/nodes/{node['metadata']['name']}/status", {"status": node["status"]}, MERGE)


def namespaces(*names: str) -> list[Object]:
    """Return namespaces."""
    return [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in names]


def token(server: ApiServer, namespace: str, name: str) -> str:
    """Return a token of a service account, as kubelet would fetch it."""
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
    answer: str = server.request("POST", path, body)["status"]["token"]
    return answer


def _collection(obj: Object) -> str:
    place = PLACES[obj["kind"]]
    assert obj["apiVersion"] == place.version
    return place.collection(obj["metadata"].get("namespace", ""))
