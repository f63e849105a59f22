"""Denied actions on a real API server with the manifests of deploy/: who, what, and which layer denies.

Each account uses its own token. Next to denied actions stands what the same account may do, so that no test passes
because a request is malformed.
"""

import json
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from deviceshare.families import FAMILIES
from support import deploy
from support.admission_actions import (
    ACCOUNTS,
    ALLOWED,
    CROWDED,
    DENIED,
    EVENTS,
    GROUPS,
    MANY,
    NAMESPACE,
    NODE,
    POD,
    PODS,
    QUEUES,
    RBAC,
    SERVED,
    SYSTEM,
    Action,
    event,
    group,
    pod,
    queue,
)
from support.agents.api import MERGE
from support.apiserver import ApiServer
from support.definitions import installed
from support.volume_actions import ALLOWED as ALLOWED_FOR_VOLUMES
from support.volume_actions import DENIED as DENIED_FOR_VOLUMES
from support.volume_actions import OBJECTS

Send = Callable[[Action], tuple[int, str]]


def ids(actions: list[Action]) -> list[str]:
    return [f"{each.who}: {each.what}" for each in actions]


def _tenant_rules() -> list[dict[str, Any]]:
    """Return objects by which the accounts that are not ours may do anything with pods and PodGroups."""
    rules = [
        {"apiGroups": [""], "resources": ["*"], "verbs": ["*"]},
        {"apiGroups": ["scheduling.volcano.sh"], "resources": ["*"], "verbs": ["*"]},
    ]
    version, name = {"apiVersion": "rbac.authorization.k8s.io/v1"}, {"name": "admission-test"}
    others = [where for who, where in ACCOUNTS.items() if where[0] != SYSTEM]
    subjects = [{"kind": "ServiceAccount", "namespace": namespace, "name": each} for namespace, each in others]
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", **name}
    return [
        *({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": each} for each in _named(others)),
        {**version, "kind": "ClusterRole", "metadata": name, "rules": rules},
        {**version, "kind": "ClusterRoleBinding", "metadata": name, "roleRef": reference, "subjects": subjects},
    ]


def _named(accounts: list[tuple[str, str]]) -> list[dict[str, str]]:
    return [{"namespace": namespace, "name": name} for namespace, name in accounts]


@pytest.fixture(scope="module")
def server(apiserver: ApiServer) -> Iterator[ApiServer]:
    """Give an API server with our accounts, roles and policies, and objects to act on."""
    objects = [*deploy.everything(), *deploy.read(deploy.KUBERNETES / "preemption")]
    definitions = [obj for obj in objects if obj["kind"] == "CustomResourceDefinition"]
    kinds = ("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
    rules = [obj for obj in objects if obj["kind"] in kinds]
    deploy.apply(apiserver, *deploy.namespaces(SYSTEM, NAMESPACE, "volcano-system", "mindx-dl"))
    with installed(apiserver, *definitions), deploy.applied(apiserver, *rules, *_tenant_rules()):
        made = pod("p", labels={"app": "a"}, annotations={"mine": "x", "deviceshare.io/fenced-claims": "a"})
        uid = apiserver.request("POST", PODS, made)["metadata"]["uid"]
        ready = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
        apiserver.request("PATCH", f"{POD}/status", ready, MERGE)
        assert uid
        apiserver.request("POST", PODS, pod("crowded", annotations=MANY))
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE.rpartition("/")[2]}}
        node["metadata"]["annotations"] = {"mine": "x", "volcano.sh/mutex.lock": "x"}  # type: ignore[index]
        apiserver.request("POST", "/api/v1/nodes", node)
        apiserver.request("POST", GROUPS, group("g", phase="Pending", annotations={"mine": "a"}))
        for name, served in SERVED.items():
            made = queue(name)
            made["metadata"]["annotations"] = served
            apiserver.request("POST", QUEUES, made)
        for path, obj in OBJECTS:
            apiserver.request("POST", path, obj)
        for name, reporter in (("others", "kubelet"), ("binders", "deviceshare-binder")):
            apiserver.request("POST", EVENTS, event(name, reporter))
        try:
            with deploy.applied(apiserver, *deploy.policies()):
                deploy.await_policies(apiserver)
                deploy.await_denial(apiserver, GROUPS, group("probe", queue="admission-queue"))
                yield apiserver
            # Other tests on this server create pods as they like.
            deploy.await_policies(apiserver, denied=False)
        finally:
            volumes = [f"{path}/{obj['metadata']['name']}" for path, obj in OBJECTS]
            for path in volumes:
                apiserver.request("PATCH", path, {"metadata": {"finalizers": None}}, MERGE)
            for path in (POD, CROWDED, NODE, f"{EVENTS}/others", f"{EVENTS}/binders", *volumes):
                apiserver.request("DELETE", path, {"gracePeriodSeconds": 0})


@pytest.fixture(scope="module")
def send(server: ApiServer) -> Send:
    """Give a function that tries an action with the account's token, without effect."""
    tokens = {who: deploy.token(server, *where) for who, where in ACCOUNTS.items()}
    known = server.request("GET", POD)["metadata"]
    image = {"spec": {"containers": [{"name": "c", "image": "other"}]}}

    def tried(action: Action) -> tuple[int, str]:
        body = image if action.what == "change an image" and action.who == "binder" else action.body
        text = json.dumps(body).replace('"UID"', f'"{known["uid"]}"')
        text = text.replace('"REVISION"', f'"{known["resourceVersion"]}"')
        if action.method == "PUT":
            read = server.request("GET", action.path)["metadata"]["resourceVersion"]
            text = json.dumps({**body, "metadata": {**body["metadata"], "resourceVersion": read}})
        mark = "&" if "?" in action.path else "?"
        path = action.path if action.method == "GET" else f"{action.path}{mark}dryRun=All"
        kind = MERGE if action.method == "PATCH" else "application/json"
        if "ephemeralcontainers" in action.path:
            kind = "application/strategic-merge-patch+json"
        request = urllib.request.Request(
            f"{server.url}{path}",
            method=action.method,
            data=None if body is None else text.encode(),
            headers={"Authorization": f"Bearer {tokens[action.who]}", "Content-Type": kind},
        )
        try:
            with urllib.request.urlopen(request, context=server.tls(), timeout=30) as answer:
                return answer.status, ""
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())["message"]

    return tried


@pytest.mark.parametrize("action", DENIED + DENIED_FOR_VOLUMES, ids=ids(DENIED + DENIED_FOR_VOLUMES))
def test_a_denied_action(send: Send, action: Action) -> None:
    status, message = send(action)
    assert status == 403, (status, message)
    by = "cannot" if action.layer == RBAC else f"ValidatingAdmissionPolicy '{action.layer}'"
    assert by in message, message


@pytest.mark.parametrize("action", ALLOWED + ALLOWED_FOR_VOLUMES, ids=ids(ALLOWED + ALLOWED_FOR_VOLUMES))
def test_an_allowed_action(send: Send, action: Action) -> None:
    status, message = send(action)
    assert status in (200, 201), (status, message)


def test_accounts_trusted_by_the_base_alone_are_those_that_the_manifests_create() -> None:
    """Who may create an account of this name, in a namespace that the cluster does not have, would be trusted."""
    ours = {
        f"system:serviceaccount:{obj['metadata']['namespace']}:{obj['metadata']['name']}"
        for obj in deploy.everything()
        if obj["kind"] == "ServiceAccount"
    }
    named = set()
    for path in (deploy.KUBERNETES / "base").glob("policy-*.yaml"):
        for obj in deploy.read(path):
            words = json.dumps(obj).replace("'", '"').split('"')
            named |= {word.rstrip("\\") for word in words if word.startswith("system:serviceaccount:")}
    assert named
    assert named <= ours


def test_the_binder_may_write_the_locks_of_every_family() -> None:
    """A lock that the policy does not name would keep pods of its family from being bound."""
    (policy,) = [each for each in deploy.policies() if each["metadata"]["name"] == "deviceshare-binder-nodes"][:1]
    expressions = " ".join(each["expression"] for each in policy["spec"]["validations"])
    locks = {lock for family in FAMILIES for lock in family.plugin.locks}
    assert len(locks) > 2
    for lock in locks:
        assert f"'{lock}'" in expressions, lock
