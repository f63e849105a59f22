"""Each service under its own account, on a real API server with an audit log.

What the manifests grant is what is used: nothing is refused, and no grant is left unused.
"""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from deviceshare_bus.runtime.setup import set_up
from support import apiserver as kube
from support import deploy
from support.agents.api import MERGE
from support.apiserver import ApiServer
from support.kube_proxy import KubeProxy, Query
from support.manifest import manifest
from support.plugins import serve

SYSTEM = "deviceshare-system"
NAMESPACE = "permissions-test"
SERVICES = ("inventory", "placement", "binder", "metrics")
MANIFESTS = deploy.everything()
AUDIT = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata"}],
}
EXAMPLE = deploy.ROOT / "examples" / "nodes" / "vgpu-1080ti.yaml"


class Verb(NamedTuple):
    """One thing that an account may do, or did; ``namespace`` is '' where it is any."""

    account: str
    namespace: str
    group: str
    resource: str
    verb: str


ELSEWHERE = {"credentials": "tests/deploy/test_credentials_job.py", "metrics": "tests/kube/test_deployed_users.py"}
"""Accounts whose permissions other tests use."""


def granted() -> set[Verb]:
    """Return what the manifests let each service do, except those of ELSEWHERE."""
    rules = {
        (obj["kind"], obj["metadata"].get("namespace", ""), obj["metadata"]["name"]): obj["rules"]
        for obj in MANIFESTS
        if obj["kind"] in ("Role", "ClusterRole")
    }
    found = set()
    for obj in MANIFESTS:
        if obj["kind"] in ("RoleBinding", "ClusterRoleBinding"):
            namespace = obj["metadata"].get("namespace", "")
            (subject,) = obj["subjects"]
            assert (subject["kind"], subject["namespace"]) == ("ServiceAccount", SYSTEM)
            for rule in rules.pop((obj["roleRef"]["kind"], namespace, obj["roleRef"]["name"])):
                if subject["name"] in ELSEWHERE:
                    continue
                assert set(rule) == {"apiGroups", "resources", "verbs"}
                for group in rule["apiGroups"]:
                    for resource in rule["resources"]:
                        found |= {Verb(subject["name"], namespace, group, resource, verb) for verb in rule["verbs"]}
    assert not rules, f"no account is bound to these rules: {rules}"
    return found


def asked(server: ApiServer) -> list[tuple[Verb, int]]:
    """Return what the accounts of our namespace have asked, and how they were answered."""
    found = []
    for line in (server.directory / "audit.log").read_text().splitlines():
        event = json.loads(line)
        _, _, name = event["user"]["username"].rpartition(f"serviceaccount:{SYSTEM}:")
        if name == event["user"]["username"] or not name:
            continue
        at = event.get("objectRef", {})
        resource = "/".join(filter(None, (at.get("resource", ""), at.get("subresource", ""))))
        verb = Verb(name, at.get("namespace", ""), at.get("apiGroup", ""), resource, event["verb"])
        found.append((verb, event["responseStatus"]["code"]))
    return found


def uses(grant: Verb, did: Verb) -> bool:
    return did == (grant if grant.namespace else grant._replace(namespace=did.namespace))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """Give an API server that holds all of our manifests and audits."""
    directory = tmp_path_factory.mktemp("audited")
    (directory / "audit.json").write_text(json.dumps(AUDIT))
    running = ApiServer(
        kube.binaries(),
        directory,
        f"--audit-policy-file={directory / 'audit.json'}",
        f"--audit-log-path={directory / 'audit.log'}",
        "--audit-log-mode=blocking-strict",
    )
    try:
        running.start()
        deploy.install_all(running, NAMESPACE)
        yield running
    finally:
        running.stop()


class Services:
    """The services as processes, with the options that their manifests give them."""

    def __init__(self, server: ApiServer, bus: str, directory: Path) -> None:
        self._server, self._bus, self._directory = server, bus, directory
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, kubeconfig: str = "") -> None:
        """Start a service: where it may have a token, with its own."""
        service = deploy.service(name)
        variables = service.variables | {"DEVICESHARE_BUS": self._bus}
        if service.has_token:
            variables["KUBECONFIG"] = kubeconfig or str(self._server.kubeconfig(name, self.token(name)))
        with (self._directory / f"{name}.log").open("ab") as log:
            self._running[name] = subprocess.Popen(
                [sys.executable, "-m", *service.arguments], env={**os.environ, **variables}, stdout=log, stderr=log
            )

    def token(self, name: str) -> str:
        """Return a token of a service's account."""
        return deploy.token(self._server, SYSTEM, name)

    async def stop(self, *names: str) -> None:
        """Stop services as kubelet would."""
        processes = [self._running.pop(name) for name in names or list(self._running)]
        for process in processes:
            process.terminate()
        for process in processes:
            await asyncio.to_thread(process.wait, 20)

    def serve(self) -> None:
        """Serve pods as device plugins would, except one pod."""
        serve(self._server, NAMESPACE, "unserved")

    def report(self) -> list[Any]:
        """Return the node of each pod, all Events and the requests that the API server refused."""
        pods = [
            (pod["metadata"]["name"], pod["spec"].get("nodeName")) for pod in self._server.request("GET", PODS)["items"]
        ]
        events = self._server.request("GET", "/apis/events.k8s.io/v1/events")["items"]
        said = [(event["regarding"]["name"], event["reason"], event.get("series")) for event in events]
        return [pods, said, [each for each in asked(self._server) if each[1] >= 400]]

    @property
    def logs(self) -> str:
        return "\n".join(path.read_text() for path in self._directory.glob("*.log"))


@pytest.fixture
async def services(server: ApiServer, nats_url: str, tmp_path: Path) -> AsyncIterator[Services]:
    """Give the services, none of them started, on a bus of their own."""
    await set_up(nats_url)
    running = Services(server, nats_url, tmp_path)
    try:
        yield running
    finally:
        await running.stop()


def pod(name: str, memory: str, group: str = "") -> dict[str, Any]:
    limits = {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": memory}
    annotations = {"scheduling.k8s.io/group-name": group} if group else {}
    return manifest(
        "Pod",
        {"name": name, "namespace": NAMESPACE, "annotations": annotations},
        spec={
            "schedulerName": "deviceshare",
            "containers": [{"name": "c", "image": "busybox", "resources": {"limits": limits}}],
        },
    )


def add_node(server: ApiServer, name: str, **annotations: str) -> None:
    """Create a node as kubelet and its device plugin would."""
    node = yaml.safe_load(EXAMPLE.read_text())
    node["metadata"] |= {"name": name, "annotations": {**node["metadata"]["annotations"], **annotations}}
    deploy.create_node(server, node)
    server.request("PATCH", f"/api/v1/nodes/{name}", {"spec": {"taints": None}}, MERGE)


async def until(services: Services, what: Any, seconds: float = 60.0) -> Any:
    """Wait until ``what()`` is true, and return it."""
    end = asyncio.get_running_loop().time() + seconds
    while not (found := what()):
        services.serve()
        if asyncio.get_running_loop().time() > end:
            pytest.fail(f"it does not come to this:\n{services.report()}\n{services.logs[-6000:]}")
        await asyncio.sleep(0.1)
    return found


PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
GROUP = manifest("PodGroup", {"name": "gang", "namespace": NAMESPACE}, spec={"minMember": 2, "queue": "default"})
LOCKING = """
actions: "allocate"
tiers:
- plugins:
  - name: deviceshare
    arguments:
      deviceshare.VGPUEnable: true
      deviceshare.NodeLockEnable: true
"""
CONFIGURATION = manifest(
    "ConfigMap",
    {"name": "volcano-scheduler-configmap", "namespace": "volcano-system"},
    data={"volcano-scheduler.conf": LOCKING},
)
QUEUE = manifest("Queue", {"name": "default"}, spec={"weight": 1})


VOLUME, CLAIMS = "/api/v1/persistentvolumes/disk", f"/api/v1/namespaces/{NAMESPACE}/persistentvolumeclaims"


def claim(name: str) -> dict[str, Any]:
    amount = {"requests": {"storage": "1Gi"}}
    spec = {"storageClassName": f"class-{name}", "accessModes": ["ReadWriteOnce"], "resources": amount}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec}


def storage_class(name: str, provisioner: str) -> dict[str, Any]:
    return manifest(
        "StorageClass", {"name": f"class-{name}"}, provisioner=provisioner, volumeBindingMode="WaitForFirstConsumer"
    )


def with_claims(name: str) -> dict[str, Any]:
    found = pod(name, "1000")
    volumes = [{"name": each, "persistentVolumeClaim": {"claimName": each}} for each in ("found", "made")]
    found["spec"]["volumes"] = volumes
    found["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "1m"}}
    return found


DISK = manifest(
    "PersistentVolume",
    {"name": "disk"},
    spec={
        "storageClassName": "class-found",
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "1Gi"},
        "csi": {"driver": "disk.example.com", "volumeHandle": "disk"},
    },
)
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
STORAGE: list[tuple[str, dict[str, Any]]] = [
    (CLASSES, storage_class("found", "kubernetes.io/no-provisioner")),
    (CLASSES, storage_class("made", "disk.example.com")),
    ("/api/v1/persistentvolumes", DISK),
    (CLAIMS, claim("found")),
    (CLAIMS, claim("made")),
]
"""Collections and objects: two claims that wait for their first pod, and a volume for one."""


@pytest.mark.timeout(800)  # it starts five processes, some of them twice
async def test_pods_are_bound_under_accounts_with_exactly_the_needed_permissions(
    server: ApiServer, services: Services, tmp_path: Path
) -> None:
    def bound(*names: str) -> bool:
        nodes = {one["metadata"]["name"]: one["spec"].get("nodeName") for one in server.request("GET", PODS)["items"]}
        return all(nodes[name] for name in names)

    def message(name: str) -> str:
        return str(server.request("GET", f"{PODS}/{name}")["status"]["conditions"][0]["message"])

    def has_event(name: str, reason: str, times: int = 1) -> bool:
        events = server.request("GET", "/apis/events.k8s.io/v1/events")["items"]
        return any(
            event["regarding"]["name"] == name
            and event["reason"] == reason
            and (event.get("series") or {}).get("count", 1) >= times
            for event in events
        )

    server.request("POST", "/apis/scheduling.volcano.sh/v1beta1/queues", QUEUE)
    server.request("POST", f"/apis/scheduling.volcano.sh/v1beta1/namespaces/{NAMESPACE}/podgroups", GROUP)
    server.request("POST", "/api/v1/namespaces/volcano-system/configmaps", CONFIGURATION)
    add_node(server, "good")
    add_node(server, "odd", **{"volcano.sh/node-vgpu-register": "no such format"})
    for one in (pod("single", "1000"), pod("a", "1000", "gang"), pod("b", "1000", "gang")):
        server.request("POST", PODS, one)
    for name in SERVICES:
        services.start(name)
    await until(services, lambda: bound("single", "a", "b"))
    server.request("POST", PODS, pod("large", "90000"))
    await until(
        services, lambda: has_event("large", "FailedScheduling") and has_event("odd", "InvalidDeviceAnnotation")
    )
    said = message("large")

    # The claims of a pod wait for it: one for a volume, one for a node.
    for path, obj in STORAGE:
        server.request("POST", path, obj)
    server.request("PATCH", f"{VOLUME}/status", {"status": {"phase": "Available"}}, MERGE)
    server.request("POST", PODS, with_claims("stores"))
    await until(services, lambda: server.request("GET", VOLUME)["spec"].get("claimRef"))
    await until(services, lambda: "annotations" in server.request("GET", f"{CLAIMS}/made")["metadata"])

    # A pod ends before its device plugin has served it.
    server.request("POST", PODS, pod("unserved", "1000"))
    await until(services, lambda: bound("unserved"))
    server.request("PATCH", f"{PODS}/unserved/status", {"status": {"phase": "Failed"}}, MERGE)
    left = "volcano.sh/devices-to-allocate"
    await until(services, lambda: not server.request("GET", f"{PODS}/unserved")["metadata"]["annotations"][left])

    # What was said is said again: of a node that is cordoned for a moment, and by an inventory that begins anew, here
    # with a server that has no watch-list.
    await until(services, lambda: message("large") == said)  # the pod that ended holds nothing any more
    for unschedulable in (True, None):
        server.request("PATCH", "/api/v1/nodes/good", {"spec": {"unschedulable": unschedulable}}, MERGE)
        await until(services, lambda expected=unschedulable: (message("large") != said) is bool(expected))
    await until(services, lambda: has_event("large", "FailedScheduling", 2))
    await services.stop("inventory")
    async with KubeProxy(server) as proxy:

        def meddle(path: str, query: Query) -> int | None:
            return 422 if "sendInitialEvents" in query else None

        proxy.meddle = meddle
        services.start("inventory", proxy.kubeconfig(tmp_path, "inventory", services.token("inventory")))
        server.request("POST", PODS, pod("later", "1000"))
        await until(services, lambda: bound("later"))
        await until(services, lambda: has_event("odd", "InvalidDeviceAnnotation", 2))
        await services.stop()  # before the proxy, which would wait for its watches to end

    answered = asked(server)
    refused = {verb for verb, code in answered if code in (401, 403)}
    assert not refused, "a service asks what its account may not do"
    used = {verb for verb, code in answered if code < 400}
    assert {verb.account for verb in used} == {"inventory", "binder"}
    unused = {grant for grant in granted() if not any(uses(grant, did) for did in used)}
    assert not unused, "more is granted than is used"


def test_services_that_need_no_cluster_have_no_token() -> None:
    mounted = {
        obj["metadata"]["name"]: obj["spec"]["template"]["spec"]["automountServiceAccountToken"]
        for obj in MANIFESTS
        if obj["kind"] in ("Deployment", "StatefulSet")
    }
    accounts = {grant.account for grant in granted()}
    assert accounts == {"inventory", "binder"}
    # Metrics asks the API server who has a token.
    assert mounted == {name: name in accounts | {"metrics"} for name in (*SERVICES, "setup", "bus")}
