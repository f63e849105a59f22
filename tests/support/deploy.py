"""The manifests of deploy/kubernetes, as kustomize builds them, and on a real API server."""

import urllib.error
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from deviceshare_cluster.kube.kinds import ApiKind
from support.agents.api import MERGE
from support.apiserver import ApiServer
from support.definitions import install

ROOT = Path(__file__).parents[2]
KUBERNETES = ROOT / "deploy" / "kubernetes"
Object = dict[str, Any]

_RBAC, _ADMISSION = "rbac.authorization.k8s.io/v1", "admissionregistration.k8s.io/v1"
PLACES = {
    kind: ApiKind(version, plural, namespaced)
    for version, kind, plural, namespaced in (
        ("v1", "Namespace", "namespaces", False),
        ("v1", "ServiceAccount", "serviceaccounts", True),
        ("v1", "ConfigMap", "configmaps", True),
        ("v1", "Service", "services", True),
        ("apps/v1", "Deployment", "deployments", True),
        ("apps/v1", "StatefulSet", "statefulsets", True),
        ("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies", True),
        (_RBAC, "ClusterRole", "clusterroles", False),
        (_RBAC, "ClusterRoleBinding", "clusterrolebindings", False),
        (_RBAC, "Role", "roles", True),
        (_RBAC, "RoleBinding", "rolebindings", True),
        (_ADMISSION, "ValidatingAdmissionPolicy", "validatingadmissionpolicies", False),
        (_ADMISSION, "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", False),
    )
}


def read(path: Path) -> list[Object]:
    """Return the objects of a file, or of a directory with a kustomization, in its order."""
    if path.is_file():
        return [obj for obj in yaml.safe_load_all(path.read_text()) if obj]
    kustomization = yaml.safe_load((path / "kustomization.yaml").read_text())
    assert kustomization["kind"] == "Kustomization"
    return [obj for name in kustomization["resources"] for obj in read(path / name)]


def everything() -> list[Object]:
    """Return all objects, each once."""
    found = {}
    for name in ("with-volcano", "without-volcano", "mindcluster"):
        for obj in read(KUBERNETES / name):
            metadata = obj["metadata"]
            found[obj["kind"], metadata.get("namespace", ""), metadata["name"]] = obj
    return list(found.values())


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


def service(name: str) -> Service:
    """Return how the manifests start a service, on loopback and on free ports."""
    (deployment,) = [o for o in everything() if o["kind"] == "Deployment" and o["metadata"]["name"] == name]
    pod = deployment["spec"]["template"]["spec"]
    assert pod["serviceAccountName"] == name
    (container,) = pod["containers"]
    variables = {one["name"]: one.get("value", "") for one in container["env"]} | {
        "DEVICESHARE_HEALTH_ADDRESS": "127.0.0.1",
        "DEVICESHARE_HEALTH_PORT": "0",
        "DEVICESHARE_METRICS_ADDRESS": "127.0.0.1",
        "DEVICESHARE_METRICS_PORT": "0",
        "DEVICESHARE_SIGNING_KEY": "a key that both of them have",
        "KUBECONFIG": "/nowhere",
    }
    return Service(container["args"], variables, pod["automountServiceAccountToken"])


def install_all(server: ApiServer, *also: str) -> None:
    """Install everything, and the namespaces of others that it needs, and more of them."""
    objects = everything()
    for obj in objects:
        if obj["kind"] == "CustomResourceDefinition":
            install(server, obj)
    others = [obj for obj in objects if obj["kind"] != "CustomResourceDefinition"]
    apply(server, *namespaces("volcano-system", "mindx-dl", *also), *others)


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
