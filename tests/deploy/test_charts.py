"""The Helm chart: its values, the kustomize base that is generated from it, and a real API server that accepts both."""

import json
import re
import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from support import charts, deploy
from support.apiserver import ApiServer
from support.definitions import installed

VALUES = yaml.safe_load((charts.CHART / "values.yaml").read_text())
SCHEMA = json.loads((charts.CHART / "values.schema.json").read_text())
CONFIGURATIONS = "configurationNamespaces={volcano-system,mindx-dl}"
EVERYTHING = (
    "bus.servers=3,placement.autoscaling.enabled=true,tracing.endpoint=http://collector.monitoring:4318,"
    "monitoring.serviceMonitor=true,monitoring.prometheusRule=true,monitoring.dashboards=true,"
    f"monitoring.labels.release=prometheus,{CONFIGURATIONS},preemption=true,resourceClaims=true,exclusiveDrivers={{gpu.nvidia.com}},"
    "trusted.volcano=true,trusted.volcanoDevicePlugin=true,trusted.hami=true,trusted.hamiAscend=true,trusted.mindcluster=true,"
    "metrics.ingress.enabled=true,metrics.ingress.host=gpus.example.com,metrics.ingress.tlsSecret=page,"
    "metrics.ingress.className=nginx,metrics.service.type=LoadBalancer"
)
OPEN = (
    "bus.authentication=false,metrics.access=open,credentials.generate=false,networkPolicy.enabled=false,"
    "podDisruptionBudgets=false,priorityClass.name=,topologySpread.topologyKey="
)
VARIANTS = {"default": "", "everything": EVERYTHING, "nothing": OPEN}


def variant(name: str) -> list[charts.Object]:
    return charts.rendered("--set", VARIANTS[name]) if VARIANTS[name] else charts.rendered()


def test_the_base_is_what_the_templates_give() -> None:
    files = charts.written(charts.BASE)
    assert files == charts.base(), "run `make manifests`"
    assert charts.written(charts.CRDS) == charts.kinds(), "run `make manifests`"
    listed = yaml.safe_load((charts.BASE / "kustomization.yaml").read_text())["resources"]
    assert sorted(listed) == sorted({*files, "namespace.yaml"})


def in_words(value: Any) -> Any:
    """Return a value without line breaks and indentation in texts: kustomize adds line breaks to folded ones."""
    if isinstance(value, dict):
        return {key: in_words(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [in_words(inner) for inner in value]
    return " ".join(value.split()) if isinstance(value, str) else value


@pytest.mark.parametrize(
    ("directories", "options"),
    [
        (
            ("with-volcano", "mindcluster"),
            "configurationNamespaces={volcano-system,mindx-dl},trusted.volcano=true,trusted.volcanoDevicePlugin=true",
        ),
        (("without-volcano", "preemption"), "trusted.volcanoDevicePlugin=true,preemption=true"),
        (("without-volcano", "resource-claims"), "trusted.volcanoDevicePlugin=true,resourceClaims=true"),
        (
            ("without-volcano", "resource-claims", "exclusive-devices"),
            "trusted.volcanoDevicePlugin=true,resourceClaims=true,exclusiveDrivers={gpu.nvidia.com}",
        ),
        (("without-volcano",), "trusted.volcanoDevicePlugin=true"),
    ],
)
def test_kustomize_builds_the_objects_of_the_chart(directories: tuple[str, ...], options: str) -> None:
    built = {charts.key(obj): obj for name in directories for obj in charts.kustomized(charts.KUBERNETES / name)}
    (namespace,) = [obj for obj in built.values() if obj["kind"] == "Namespace"]
    del built[charts.key(namespace)]
    rendered = {charts.key(obj): obj for obj in charts.rendered("--set", options)}
    if "without-volcano" not in directories:  # Volcano defines its kinds
        rendered = {key: obj for key, obj in rendered.items() if not is_definition(obj)}
    assert in_words(built) == in_words(rendered)


@pytest.mark.parametrize(
    ("component", "value"),
    [
        ("volcano", "volcano"),
        ("volcano-device-plugin", "volcanoDevicePlugin"),
        ("hami", "hami"),
        ("hami-ascend", "hamiAscend"),
        ("mindcluster", "mindcluster"),
    ],
)
def test_the_components_of_kustomize_trust_the_accounts_of_the_values(component: str, value: str) -> None:
    objects = deploy.read(charts.BASE)
    deploy.add_component(objects, charts.KUBERNETES / "trusted" / component)
    rendered = {charts.key(obj): obj for obj in charts.rendered("--set", f"trusted.{value}=true")}
    for obj in objects:
        if obj["kind"] == "ValidatingAdmissionPolicy":
            assert in_words(obj) == in_words(rendered[charts.key(obj)])


def test_all_versions_are_the_same() -> None:
    chart = yaml.safe_load((charts.CHART / "Chart.yaml").read_text())
    found = {chart["version"], chart["appVersion"]}
    for part in ("libs/*", "services/*", "lab"):
        for path in charts.ROOT.glob(f"{part}/pyproject.toml"):
            found.add(tomllib.loads(path.read_text())["project"]["version"])
    images = yaml.safe_load((charts.BASE / "kustomization.yaml").read_text())["images"]
    assert found | {image["newTag"] for image in images} == {chart["version"]}


def tables(value: Any, schema: dict[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the paths of the tables of values with fixed names."""
    if "properties" in schema:
        assert schema["additionalProperties"] is False, path
        assert set(value) == set(schema["properties"]) - {"global"}, path
        yield path
        for name, inner in schema["properties"].items():
            if isinstance(value.get(name), dict) and name != "resources":
                yield from tables(value[name], inner, (*path, name))


def test_a_misspelt_value_is_rejected_at_every_level() -> None:
    paths = list(tables(VALUES, SCHEMA))
    assert len(paths) > 15
    document: dict[str, Any] = {}
    for path in paths:
        table = document
        for name in path:
            table = table.setdefault(name, {})
        table["misspelt"] = 1
    file = charts.ROOT / ".cache" / "charts" / "misspelt.json"
    file.write_text(json.dumps(document))
    done = charts.helm("template", "deviceshare", str(charts.CHART), "--values", str(file))
    assert done.returncode != 0
    for path in paths:
        where = "".join(f"/{name}" for name in path)
        assert f"at '{where}': additional properties 'misspelt' not allowed" in done.stderr


def test_nothing_is_said_on_stderr() -> None:
    """Helm names each symbolic link of a chart there, as if it were a fault."""
    assert charts.helm("template", "deviceshare", str(charts.CHART)).stderr == ""


def test_a_table_that_is_removed_is_named() -> None:
    for path in tables(VALUES, SCHEMA):
        if path:
            done = charts.helm("template", "deviceshare", str(charts.CHART), "--set", f"{'.'.join(path)}=null")
            assert done.returncode != 0
            assert f"missing property '{path[-1]}'" in done.stderr


def test_the_default_requests_fit_a_node_of_two_cores_during_an_upgrade() -> None:
    """As the comment in values.yaml says; kubeadm's control plane requests 850m on the same node."""

    def requested(obj: charts.Object) -> tuple[int, int]:
        (container,) = obj["spec"]["template"]["spec"]["containers"]
        asked = container["resources"]["requests"]
        surge = obj["spec"].get("strategy", {}).get("rollingUpdate", {}).get("maxSurge", 0)
        cpu, replicas = int(asked["cpu"].removesuffix("m")), obj["spec"]["replicas"]
        return replicas * cpu, surge * cpu

    found = [requested(obj) for obj in variant("default") if obj["kind"] in ("Deployment", "StatefulSet")]
    assert sum(cpu for cpu, _ in found) == 560
    assert sum(map(sum, found)) + 850 < 2000


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("bus.servers=2", "one of 1, 3"),
        ("metrics.access=everyone", "one of 'kubernetes', 'secret', 'open'"),
        ("placement.resources.requests.cpus=1", "additional properties 'cpus'"),
        ("image.digest=sha256:abc", "pattern"),
        (f"image.digest=sha256:{'a1' * 32},image.tag=own", "image deviceshare: set tag or digest, not both"),
        (
            "placement.autoscaling.enabled=true,placement.autoscaling.minReplicas=8,placement.autoscaling.maxReplicas=2",
            "minReplicas is above maxReplicas",
        ),
        ("bus.storage.size=1Gi", "does not match pattern"),
        ("bus.storage.size=1T", "does not match pattern"),
        ("bus.goMemoryLimit=9GiB", "bus.goMemoryLimit=9GiB is not below bus.resources.limits.memory=1Gi"),
        ("bus.goMemoryLimit=1048576KiB", "is not below bus.resources.limits.memory=1Gi"),
        ("bus.resources.limits.memory=900M", "bus.goMemoryLimit=900MiB is not below bus.resources.limits.memory=900M"),
        ("bus.resources.limits.memory=900000000", "is not below bus.resources.limits.memory=9"),
        ("inventory.schedulerNames={default-scheduler}", "default-scheduler is the name of kube-scheduler"),
        ("inventory.schedulerNames={a b}", '"a b" is not valid: expected lowercase letters'),
        ("inventory.watchWindow=1.5", "does not match pattern"),
        ("inventory.watchWindow=2", "maximum: got 2, want 1"),
        ("configurationNamespaces={default}", "one of 'volcano-system', 'mindx-dl'"),
        ("exclusiveDrivers={gpu.nvidia.com}", "exclusiveDrivers needs resourceClaims=true"),
        ("resourceClaims=true,exclusiveDrivers={it's.example.com}", "does not match pattern"),
    ],
)
def test_a_wrong_value_is_rejected(value: str, reason: str) -> None:
    done = charts.helm("template", "deviceshare", str(charts.CHART), "--set", value)
    assert done.returncode != 0
    assert reason in done.stderr


@pytest.mark.parametrize(
    "value",
    [
        "bus.goMemoryLimit=9GiB,bus.resources.limits.memory=10Gi",
        "bus.goMemoryLimit=1023MiB",
        "bus.resources.limits.memory=1.5G",
        "bus.resources.limits.memory=2000000000",
        "bus.resources.limits.memory=null",
        "bus.resources.limits=null",
        "inventory.schedulerNames={volcano,my-scheduler.example}",
        "inventory.watchWindow=0.1,tracing.samplingRatio=0.5",
    ],
)
def test_a_right_value_is_accepted(value: str) -> None:
    done = charts.helm("template", "deviceshare", str(charts.CHART), "--set", value)
    assert done.returncode == 0, done.stderr


def operator_kind(kind: str, plural: str) -> charts.Object:
    """Return a definition in place of that of Prometheus's operator, which accepts every field."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.monitoring.coreos.com"},
        "spec": {"group": "monitoring.coreos.com", "scope": "Namespaced", "names": names, "versions": [version]},
    }


def is_definition(obj: charts.Object) -> bool:
    return bool(obj["kind"] == "CustomResourceDefinition")


@pytest.mark.parametrize("name", VARIANTS)
def test_an_api_server_accepts_the_chart(apiserver: ApiServer, name: str) -> None:
    objects = variant(name)
    definitions = [obj for obj in objects if is_definition(obj)]
    assert len(definitions) == 2
    others = [obj for obj in objects if not is_definition(obj)]
    operators = [operator_kind("ServiceMonitor", "servicemonitors"), operator_kind("PrometheusRule", "prometheusrules")]
    deploy.apply(apiserver, *deploy.namespaces(charts.NAMESPACE, "volcano-system", "mindx-dl"))
    with installed(apiserver, *definitions, *operators):
        deploy.dry_run(apiserver, *others)
        with deploy.applied(apiserver, *others):
            pass


@pytest.mark.parametrize(
    "directory",
    ["with-volcano", "without-volcano", "mindcluster", "preemption", "resource-claims", "exclusive-devices"],
)
def test_an_api_server_accepts_what_kustomize_builds(apiserver: ApiServer, directory: str) -> None:
    objects = charts.kustomized(charts.KUBERNETES / directory)
    others = [obj for obj in objects if not is_definition(obj)]
    deploy.apply(apiserver, *deploy.namespaces(charts.NAMESPACE, "volcano-system", "mindx-dl"))
    with installed(apiserver, *(obj for obj in objects if is_definition(obj))):
        deploy.dry_run(apiserver, *others)
        with deploy.applied(apiserver, *others):
            pass


def test_the_binder_may_evict_pods_only_where_the_values_say_so() -> None:
    def evicts(objects: list[charts.Object]) -> bool:
        return any("pods/eviction" in rule["resources"] for obj in objects for rule in obj.get("rules", ()))

    assert not evicts(variant("default"))
    assert evicts(charts.rendered("--set", "preemption=true"))


def test_in_a_dry_run_the_services_may_only_read_and_no_policy_is_in_force() -> None:
    def verbs(objects: list[charts.Object]) -> set[str]:
        roles = [obj for obj in objects if obj["metadata"]["name"] in ("deviceshare-binder", "deviceshare-inventory")]
        return {verb for obj in roles for rule in obj.get("rules", ()) for verb in rule["verbs"]}

    objects = charts.rendered("--set", "dryRun=true,preemption=true")
    assert verbs(objects) == {"get", "list", "watch"} < verbs(variant("default"))
    assert not [obj for obj in objects if obj["kind"].startswith("ValidatingAdmissionPolicy")]
    deployments = {obj["metadata"]["name"]: obj for obj in objects if obj["kind"] == "Deployment"}
    services = {name: obj["spec"]["template"]["spec"]["containers"][0] for name, obj in deployments.items()}
    assert {name for name, each in services.items() if "--dry-run" in each["args"]} == {"binder", "inventory"}
    assert not [name for name, each in services.items() if "SIGNING" in str(each)]
    (bus,) = (obj["spec"] for obj in objects if obj["kind"] == "StatefulSet")
    assert "volumeClaimTemplates" not in bus, "a later installation would execute its claims"
    assert {"name": "store", "emptyDir": {"sizeLimit": "12Gi"}} in bus["template"]["spec"]["volumes"]


def test_an_ingress_leads_to_the_page() -> None:
    assert "Ingress" not in {obj["kind"] for obj in variant("default")}
    objects = {(obj["kind"], obj["metadata"]["name"]): obj["spec"] for obj in variant("everything") if "spec" in obj}
    ingress, service = objects["Ingress", "metrics"], objects["Service", "metrics"]
    assert ingress["tls"] == [{"secretName": "page", "hosts": ["gpus.example.com"]}]
    (rule,) = ingress["rules"]
    ((path),) = rule["http"]["paths"]
    assert (rule["host"], path["path"], ingress["ingressClassName"]) == ("gpus.example.com", "/", "nginx")
    assert path["backend"]["service"]["port"]["name"] in {port["name"] for port in service["ports"]}
    assert service["type"] == "LoadBalancer"
    (container,) = objects["Deployment", "metrics"]["template"]["spec"]["containers"]
    assert {"name": "DEVICESHARE_HTTP_HOSTS", "value": "gpus.example.com"} in container["env"]


def test_resource_claims_are_read_and_allocated_only_where_the_values_say_so() -> None:
    def groups(objects: list[charts.Object]) -> set[str]:
        return {group for obj in objects for rule in obj.get("rules", ()) for group in rule.get("apiGroups", ())}

    assert "resource.k8s.io" not in groups(variant("default"))
    assert "resource.k8s.io" in groups(charts.rendered("--set", "resourceClaims=true"))


def test_three_servers_are_a_cluster() -> None:
    one, three = ({charts.key(obj)[::2]: obj for obj in variant(name)} for name in ("default", "everything"))
    assert ("PodDisruptionBudget", "bus") not in one
    assert three["PodDisruptionBudget", "bus"]["spec"]["maxUnavailable"] == 1
    servers = three["StatefulSet", "bus"]["spec"]
    assert servers["replicas"] == 3
    (term,) = servers["template"]["spec"]["affinity"]["podAntiAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]
    assert term["topologyKey"] == "kubernetes.io/hostname"
    assert three["Service", "bus"]["spec"]["clusterIP"] == "None"
    files = three["ConfigMap", "bus"]["data"]
    text = files["nats-cluster.conf"]
    assert [f"nats://bus-{i}.bus:6222" in text for i in range(4)] == [True, True, True, False]
    assert "sync_interval: always" in text
    (server,) = servers["template"]["spec"]["containers"]
    assert server["args"] == ["--config", "/etc/nats/nats-cluster.conf"]
    assert set(one["ConfigMap", "bus"]["data"]) == {"nats.conf", "nats-users.conf"}
    (container,) = three["Deployment", "setup"]["spec"]["template"]["spec"]["containers"]
    assert container["args"][container["args"].index("--replicas") + 1] == "3"
    (url,) = [each["value"] for each in container["env"] if each["name"] == "DEVICESHARE_BUS"]
    assert url == "tls://bus-0.bus:4222,tls://bus-1.bus:4222,tls://bus-2.bus:4222"


def checksum(objects: list[charts.Object]) -> str:
    (bus,) = [obj for obj in objects if charts.key(obj)[::2] == ("StatefulSet", "bus")]
    return str(bus["spec"]["template"]["metadata"]["annotations"]["checksum/configuration"])


@pytest.mark.parametrize("name", ["nats.conf", "nats-users.conf", "nats-cluster.conf"])
def test_a_change_of_any_configuration_restarts_the_bus(tmp_path: Path, name: str) -> None:
    """Also of nats.conf, which nats-users.conf includes."""
    chart = Path(shutil.copytree(charts.CHART, tmp_path / "deviceshare"))
    found = []
    for change in ("", "# changed\n"):
        (chart / "files" / name).write_text((charts.FILES / name).read_text() + change)
        done = charts.helm("template", "deviceshare", str(chart), "--set", VARIANTS["everything"])
        assert done.returncode == 0, done.stderr
        found.append(checksum(charts.objects(done.stdout)))
    assert found[0] != found[1]


@pytest.mark.parametrize(("size", "limit"), [("2Gi", 1), ("12Gi", 10), ("121Gi", 100)])
def test_the_size_of_the_volume_sets_the_limit_of_nats_server(size: str, limit: int) -> None:
    for options in (f"bus.storage.size={size}", f"bus.servers=3,bus.storage.size={size}"):
        found = {charts.key(obj)[::2]: obj for obj in charts.rendered("--set", options)}
        configuration = "".join(found["ConfigMap", "bus"]["data"].values())
        assert set(re.findall(r"max_file_store: (\S+)", configuration)) == {f"{limit}GB"}
        (claim,) = found["StatefulSet", "bus"]["spec"]["volumeClaimTemplates"]
        assert claim["spec"]["resources"]["requests"]["storage"] == size
        for service in ("inventory", "placement", "binder", "metrics"):
            (container,) = found["Deployment", service]["spec"]["template"]["spec"]["containers"]
            (value,) = [each["value"] for each in container["env"] if each["name"] == "DEVICESHARE_BUS_STORAGE"]
            assert int(value) == limit << 30


def test_the_monitoring_has_the_rules_and_the_dashboard() -> None:
    found = {charts.key(obj)[::2]: obj for obj in variant("everything")}
    rules = yaml.safe_load((charts.FILES / "rules.yaml").read_text())
    assert found["PrometheusRule", "deviceshare"]["spec"] == rules
    dashboard = found["ConfigMap", "deviceshare-dashboards"]["data"]["deviceshare.json"]
    assert json.loads(dashboard) == json.loads((charts.FILES / "dashboard.json").read_text())
    services = {charts.key(obj)[2]: obj for obj in found.values() if obj["kind"] == "Service"}
    for name in ("health", "metrics"):
        monitor = found["ServiceMonitor", f"deviceshare-{name}"]["spec"]
        labels = services[name]["metadata"]["labels"]
        assert monitor["selector"]["matchLabels"].items() <= labels.items()
        (endpoint,) = monitor["endpoints"]
        assert endpoint["port"] in {port["name"] for port in services[name]["spec"]["ports"]}
        assert endpoint["honorLabels"], "the label `service` of the metrics would be replaced"


def test_the_autoscaler_sets_the_replicas() -> None:
    found = {charts.key(obj)[::2]: obj for obj in variant("everything")}
    assert "replicas" not in found["Deployment", "placement"]["spec"]
    assert found["HorizontalPodAutoscaler", "placement"]["spec"]["scaleTargetRef"]["name"] == "placement"
    (metric,) = found["HorizontalPodAutoscaler", "placement"]["spec"]["metrics"]
    assert metric["pods"]["metric"]["name"] in (charts.ROOT / "docs" / "monitoring.md").read_text()


def test_exclusive_drivers_may_have_capitals_as_in_kubernetes() -> None:
    objects = charts.rendered("--set", "resourceClaims=true,exclusiveDrivers={GPU.example.com}")
    (policy,) = [
        each
        for each in objects
        if each["metadata"]["name"] == "deviceshare-exclusive-devices" and "variables" in each["spec"]
    ]
    assert "'GPU.example.com'" in policy["spec"]["variables"][0]["expression"]
