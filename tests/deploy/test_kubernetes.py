"""deploy/kubernetes names only existing things, is consistent, and is accepted by a real API server."""

import pytest
import yaml
from support import deploy
from support.apiserver import ApiServer
from support.charts import FILES

OBJECTS = deploy.everything()
WORKLOADS = [obj for obj in OBJECTS if obj["kind"] in ("Deployment", "StatefulSet")]
JOBS = [obj for obj in OBJECTS if obj["kind"] == "Job"]
SERVICES = {obj["metadata"]["name"]: obj for obj in WORKLOADS if obj["kind"] == "Deployment"}


def containers() -> list[dict]:
    return [one for obj in WORKLOADS for one in obj["spec"]["template"]["spec"]["containers"]]


def test_the_bus_and_four_services_are_defined():
    assert set(SERVICES) == {"setup", "inventory", "placement", "binder", "metrics"}
    assert [obj["metadata"]["name"] for obj in WORKLOADS if obj["kind"] == "StatefulSet"] == ["bus"]


@pytest.mark.parametrize("name", SERVICES)
def test_each_command_is_a_program_with_these_options(name):
    (container,) = SERVICES[name]["spec"]["template"]["spec"]["containers"]
    module, *arguments = container["args"]
    assert deploy.help_of(module, arguments)


def test_each_variable_is_read_by_the_code():
    names = {variable["name"] for container in containers() for variable in container.get("env", ())}
    assert [name for name in sorted(names) if not deploy.is_read(name)] == []


def test_the_bus_has_the_configuration_of_every_bus():
    (config,) = [obj for obj in OBJECTS if obj["kind"] == "ConfigMap"]
    for name in ("nats.conf", "nats-users.conf"):
        assert config["data"][name] == (FILES / name).read_text()
    compose = yaml.safe_load((deploy.ROOT / "compose.yaml").read_text())
    (bus,) = [one for one in containers() if one["name"] == "nats"]
    assert bus["image"] == compose["services"]["bus"]["image"]
    assert bus["livenessProbe"]["exec"]["command"] == compose["services"]["bus"]["healthcheck"]["test"][1:]


def test_named_ports_exist():
    for container in containers():
        ports = {port["name"] for port in container.get("ports", ())}
        probes = [probe["httpGet"]["port"] for name, probe in container.items() if "httpGet" in probe]
        assert set(probes) <= ports
        variables = {one["name"]: one.get("value") for one in container.get("env", ())}
        for port in container.get("ports", ()):
            if container["name"] != "nats":
                assert variables[f"DEVICESHARE_{port['name'].upper()}_PORT"] == str(port["containerPort"])
    for obj in OBJECTS:
        if obj["kind"] == "Service":
            templates = [one["spec"]["template"] for one in WORKLOADS]
            selected = [
                template
                for template in templates
                if obj["spec"]["selector"].items() <= template["metadata"]["labels"].items()
            ]
            assert len(selected) == (3 if obj["metadata"]["name"] == "health" else 1)
            for template in selected:
                named = {port["name"] for one in template["spec"]["containers"] for port in one.get("ports", ())}
                assert {port["targetPort"] for port in obj["spec"]["ports"]} <= named


def test_every_object_is_in_one_of_the_directories():
    more = ("exclusive-devices", "preemption", "resource-claims")
    objects = (*OBJECTS, *(obj for name in more for obj in deploy.read(deploy.KUBERNETES / name)))
    listed = {(obj["kind"], obj["metadata"]["name"], obj["metadata"].get("namespace")) for obj in objects}
    for path in deploy.KUBERNETES.rglob("*.yaml"):
        for obj in yaml.safe_load_all(path.read_text()):
            if obj["kind"] not in ("Kustomization", "Component"):
                assert (obj["kind"], obj["metadata"]["name"], obj["metadata"].get("namespace")) in listed, path


def test_an_api_server_accepts_all_objects_and_the_pods_are_restricted(apiserver: ApiServer):
    deploy.apply(apiserver, *deploy.namespaces("volcano-system", "mindx-dl"))
    others = [obj for obj in OBJECTS if obj["kind"] != "CustomResourceDefinition"]
    with deploy.applied(apiserver, *others):
        # The namespace enforces the restricted Pod Security Standard.
        for obj in (*WORKLOADS, *JOBS):
            template = obj["spec"]["template"]
            pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", **template["metadata"]}}
            path = "/api/v1/namespaces/deviceshare-system/pods?dryRun=All&fieldValidation=Strict"
            claims = [claim["metadata"]["name"] for claim in obj["spec"].get("volumeClaimTemplates", ())]
            volumes = template["spec"].get("volumes", []) + [{"name": name, "emptyDir": {}} for name in claims]
            apiserver.request("POST", path, pod | {"spec": {**template["spec"], "volumes": volumes}})
