"""`deviceshare check`: what is understood of a cluster before a migration, of files."""

import copy
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from deviceshare_cli.checking import placing
from deviceshare_cli.checking.command import _text
from deviceshare_cli.checking.inspection import Inspection
from deviceshare_cli.checking.inspection import inspect as inspect_given
from deviceshare_cli.checking.manifests import Given, of_manifests, with_jobs
from deviceshare_localcluster import parse_manifests
from support.example_cluster import EXAMPLES
from support.running import COMMAND

SERVED = ("deviceshare", "volcano")
NODE = next(
    each for each in yaml.safe_load_all((EXAMPLES / "nodes" / "vgpu-1080ti.yaml").read_text()) if each["kind"] == "Node"
)
REGISTER = "volcano.sh/node-vgpu-register"


def inspect(objects: dict[str, list[dict[str, Any]]], schedulers: tuple[str, ...]) -> Inspection:
    return inspect_given(Given(objects), schedulers)


def command(*arguments: str, text: str = "", **environment: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [str(COMMAND), "check", *arguments], input=text, env=os.environ | environment, capture_output=True, text=True
    )
    return done.returncode, done.stdout, done.stderr


def pod(name: str = "a", scheduler: str = "volcano", image: str = "app", **spec: Any) -> dict[str, Any]:
    limits = {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "1000"}
    containers = [{"name": "main", "image": image, "resources": {"limits": limits}}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
        "spec": {"schedulerName": scheduler, "containers": containers, **spec},
    }


def node(**annotations: str) -> dict[str, Any]:
    found: dict[str, Any] = copy.deepcopy(NODE)
    found["metadata"]["annotations"] |= annotations
    return found


def found(result: Inspection) -> list[tuple[str, str, str]]:
    return [(each.severity, each.object, each.field) for each in result.findings]


def test_a_valid_cluster_is_understood() -> None:
    result = inspect({"Node": [node()], "Pod": [pod()]}, SERVED)
    assert result.findings == ()
    assert result.understood == result.objects
    assert (result.requests, result.configuration) == ({"volcano": 1}, "defaults")
    assert sum(result.cards.values()) > 0


def test_findings_name_object_field_value_and_effect() -> None:
    broken = node(**{REGISTER: "GPU-1,10"})
    broken["metadata"]["name"] = "broken"
    unknown = node(**{"hami.io/node-mlu-register": "MLU-1"})
    conf = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "volcano-scheduler-configmap",
            "namespace": "volcano-system"}, "data": {"volcano-scheduler.conf": "actions: [3"}}  # fmt: skip
    bad = pod("bad")
    bad["spec"]["containers"][0]["resources"]["limits"]["volcano.sh/vgpu-number"] = "-1"
    objects = {
        "Node": [broken, unknown],
        "Pod": [bad, pod("of-hami", "hami-scheduler"), pod("claims", resourceClaims=[{"name": "x"}])],
        "ConfigMap": [conf],
    }
    result = inspect(objects, SERVED)
    by_object = {each.object: each for each in result.findings}
    assert set(by_object) == {
        "Node broken", f"Node {NODE['metadata']['name']}", "ConfigMap volcano-system/volcano-scheduler-configmap",
        "Pod default/bad", "Pod default/of-hami", "Pod default/claims",
    }  # fmt: skip
    assert "GPU-1,10" in by_object["Node broken"].value
    register = by_object[f"Node {NODE['metadata']['name']}"]
    assert (register.field, register.value) == ("metadata.annotations[hami.io/node-mlu-register]", "MLU-1")
    assert (register.expected, "get no pods" in register.effect) == (
        "cards of NVIDIA or Ascend: no others of HAMi",
        True,
    )
    assert "--scheduler-name=hami-scheduler" in by_object["Pod default/of-hami"].expected
    assert "-1" in by_object["Pod default/bad"].value
    assert "does not place" in by_object["Pod default/claims"].effect
    assert result.understood["Node"] == 0 == result.understood["ConfigMap"]
    assert result.configuration == "ConfigMap volcano-system/volcano-scheduler-configmap"


def test_components_are_found_by_their_images() -> None:
    images = {
        "volcanosh/vc-scheduler:v1.12.0": "Volcano scheduler",
        "docker.io/volcanosh/vc-webhook-manager:v1": "Volcano webhooks",
        "volcanosh/volcano-vgpu-device-plugin:latest": "Volcano vGPU device plugin",
        "projecthami/hami:v2.6.0": "HAMi scheduler or device plugin",
        "example.org/whami-app:1": "",
    }
    pods = [pod(f"p{number}", "default-scheduler", image) for number, image in enumerate(images)]
    result = inspect({"Pod": pods}, SERVED)
    assert {each.image: each.name for each in result.components} == {k: v for k, v in images.items() if v}


def test_names_of_users_do_not_control_the_terminal() -> None:
    image = "hami:\x1b]0;owned\x07\x1b[31m\nFAKE \x9b31m\u202eLINE"
    bad = pod("b", limits={"volcano.sh/vgpu-number": "\x1b[2J"})
    result = inspect({"Pod": [pod("a", "a\x1b[31m", image), bad]}, SERVED)
    lines = _text(result).splitlines()
    assert [line for line in lines if not line.isprintable()] == []
    assert "FAKE" in next(line for line in lines if "HAMi" in line), "one line"


@pytest.mark.parametrize("wrong", [{}, {"metadata": 3}, {"metadata": {"annotations": 3}, "spec": [], "data": 1}])
def test_malformed_objects_are_findings_or_ignored(wrong: dict[str, Any]) -> None:
    inspect({kind: [wrong] for kind in ("Node", "Pod", "PodGroup", "Queue", "ConfigMap", "Namespace")}, SERVED)


def test_the_examples() -> None:
    status, out, _ = command(f"local:{EXAMPLES}", "-o", "json")
    result = json.loads(out)
    assert status == 3, "one node has a register of another version, and refused/ has pods"
    assert {"Node vgpu-register-of-another-version", "Pod default/mode-unknown"} <= {
        each["object"] for each in result["findings"] if each["severity"] == "error"
    }
    assert set(result["cards"]) == {"gpu-share", "hami-core", "hami-gpu", "mig", "mindcluster", "mps", "vnpu"}


def given(*objects: dict[str, Any]) -> Given:
    return of_manifests(parse_manifests(yaml.safe_dump_all(objects), "x.yaml"), 0.0)


def job(replicas: int, memory: int = 1000, annotations: dict[str, str] | None = None) -> dict[str, Any]:
    template = {"metadata": {"annotations": annotations or {}}, "spec": pod()["spec"]}
    template["spec"]["containers"][0]["resources"]["limits"]["volcano.sh/vgpu-memory"] = str(memory)
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "train", "namespace": "default", "uid": "uid-of-job"},
        "spec": {"minAvailable": 1, "tasks": [{"name": "t", "replicas": replicas, "template": template}]},
    }


def test_equal_findings_of_the_pods_of_a_job_are_one() -> None:
    result = inspect_given(given(node(), job(5, annotations={"volcano.sh/vgpu-mode": "x"})), SERVED)
    (finding,) = result.findings
    assert (finding.severity, finding.object) == ("error", "Pod default/train-t-0")
    assert (finding.field, finding.value) == ("metadata.annotations[volcano.sh/vgpu-mode]", "x")
    assert finding.others == tuple(f"default/train-t-{index}" for index in range(1, 5))
    assert "(and 4 more: default/train-t-1, default/train-t-2, default/train-t-3, …)" in _text(result)
    assert result.objects == {"Node": 1, "Job": 1}


def test_a_pod_that_would_fit_on_the_empty_cluster_waits_and_another_one_is_an_error() -> None:
    waits = inspect_given(given(node(), job(9, 10_000)), SERVED)
    (finding,) = waits.findings
    assert (finding.severity, finding.effect, finding.others) == ("warning", "the pod waits", ())
    assert finding.value.startswith("0/1 nodes are unavailable")
    never = inspect_given(given(node(), job(9, 12_000)), SERVED)
    assert [(each.severity, len(each.others)) for each in never.findings] == [("error", 8)]


def cluster_of_one_card(*memory: int) -> Given:
    """Return a node with one card of 11,178 MiB, and a pod for each amount of memory, in MiB."""
    one_card = node()
    one_card["metadata"]["annotations"][REGISTER] = NODE["metadata"]["annotations"][REGISTER].partition(":")[0] + ":"
    pods = [pod(f"p{amount}") for amount in memory]
    for each, amount in zip(pods, memory, strict=True):
        each["spec"]["containers"][0]["resources"]["limits"]["volcano.sh/vgpu-memory"] = str(amount)
    return given(one_card, *pods)


def test_a_pod_that_never_fits_is_an_error_however_many_different_pods_want_the_same_card() -> None:
    result = inspect_given(cluster_of_one_card(*range(10_000, 10_020), 20_000), SERVED)
    (error,) = [each for each in result.findings if each.severity == "error"]
    assert (error.object, "no other pods" in error.effect) == ("Pod default/p20000", True)
    waiting = [each for each in result.findings if each.severity == "warning"]
    assert [each.effect for each in waiting] == ["the pod waits"] * 19


def test_what_is_not_determined_is_an_error_that_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placing, "MAX_ROUNDS", 1)
    monkeypatch.setattr(placing, "MAX_ALONE", 1)
    result = inspect_given(cluster_of_one_card(10_000, 10_001, 10_002, 10_003), SERVED)
    # All but one are placed neither at first nor together; of these one is tried alone.
    assert [(each.severity, "is not determined" in each.effect) for each in result.findings] == [
        ("error", True), ("warning", False), ("warning", False),
    ]  # fmt: skip


def test_without_nodes_only_what_no_node_could_change_is_found() -> None:
    assert inspect_given(given(pod()), SERVED).findings == ()
    (finding,) = inspect_given(given(job(1, annotations={"volcano.sh/vgpu-mode": "x"})), SERVED).findings
    assert (finding.severity, finding.value) == ("error", "x")


def test_the_pods_of_jobs_that_the_cluster_has_not_made_yet_are_checked() -> None:
    cluster: dict[str, list[dict[str, Any]]] = {"Node": [node()], "Pod": [], "PodGroup": [], "PriorityClass": []}
    wrong = job(2, annotations={"volcano.sh/vgpu-mode": "x"})
    (finding,) = inspect_given(with_jobs({**cluster, "Job": [wrong]}, 0.0), SERVED).findings
    assert (finding.object, finding.value) == ("Pod default/train-t-0", "x")
    made = [pod("train-t-0"), pod("train-t-1")]
    for each in made:
        each["metadata"]["ownerReferences"] = [{"kind": "Job", "name": "train", "uid": "uid-of-job"}]
    lacks_one = inspect_given(with_jobs({**cluster, "Pod": made[:1], "Job": [wrong]}, 0.0), SERVED)
    assert [(each.object, each.others) for each in lacks_one.findings] == [("Pod default/train-t-1", ())]
    assert (lacks_one.objects, lacks_one.understood["Job"]) == ({"Node": 1, "Pod": 1, "Job": 1}, 0)
    complete = inspect_given(with_jobs({**cluster, "Pod": made, "Job": [wrong]}, 0.0), SERVED)
    assert (complete.findings, complete.understood["Job"]) == ((), 1)
    ended = {**wrong, "status": {"state": {"phase": "Completed"}}}
    assert inspect_given(with_jobs({**cluster, "Job": [ended]}, 0.0), SERVED).findings == ()


def test_a_job_of_a_live_cluster_that_is_not_understood_is_not_said_to_be_rejected() -> None:
    unknown = job(1)
    unknown["spec"]["minAvailable"] = 9
    cluster = {"Node": [node()], "Pod": [pod()], "PodGroup": [], "PriorityClass": [], "Job": [unknown]}
    result = inspect_given(with_jobs(cluster, 0.0), SERVED)
    (finding,) = result.findings
    assert (finding.severity, finding.field, finding.value) == ("error", "spec.minAvailable", "9")
    assert finding.effect == "its pods that do not exist yet are not checked"
    assert result.understood == {"Node": 1, "Pod": 1, "Job": 0}


def test_a_policy_of_weight_0_is_a_warning(tmp_path: Path) -> None:
    conf = tmp_path / "x.conf"
    chosen = pod()
    chosen["metadata"]["annotations"] = {"deviceshare.io/node-scheduler-policy": "spread"}
    arguments = "deviceshare.VGPUEnable: true, deviceshare.SchedulePolicy: binpack"
    for weight, objects in ((0, [f"File {conf}", "Pod default/a"]), (10, [])):
        conf.write_text(f"- name: deviceshare\n  arguments: {{{arguments}, deviceshare.ScheduleWeight: {weight}}}")
        text = yaml.safe_dump_all([node(), chosen])
        status, out, _ = command("-f", "-", "--conf", str(conf), "-o", "json", text=text)
        assert status == 0
        assert [(each["severity"], each["object"]) for each in json.loads(out)["findings"]] == [
            ("warning", each) for each in objects
        ]
    assert command("-f", "-", "--conf", "/nowhere", text="")[0] == 1


def test_what_is_understood_is_counted_by_manifest_and_without_warnings() -> None:
    wrong = inspect_given(given(node(), pod("a"), pod("b"), job(2, annotations={"volcano.sh/vgpu-mode": "x"})), SERVED)
    assert wrong.objects == {"Node": 1, "Pod": 2, "Job": 1}
    assert wrong.understood == {"Node": 1, "Pod": 2, "Job": 0}, "its pods are no manifests"
    waits = inspect_given(cluster_of_one_card(10_000, 10_001, 10_002), SERVED)
    assert [each.severity for each in waits.findings] == ["warning"] * 2
    assert waits.understood == waits.objects == {"Node": 1, "Pod": 3}


@pytest.mark.parametrize("restarts", ["Sometimes", "Never"])
def test_an_error_of_a_kubernetes_job_is_charged_to_it(restarts: str) -> None:
    template = {"metadata": {"annotations": {"volcano.sh/vgpu-mode": "x"}}, "spec": pod(restartPolicy=restarts)["spec"]}
    of_kubernetes = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train"}}
    result = inspect_given(given(node(), job(1), {**of_kubernetes, "spec": {"template": template}}), SERVED)
    assert result.objects == {"Node": 1, "Job": 1, "Job.batch": 1}
    assert result.understood == {"Node": 1, "Job": 1, "Job.batch": 0}
    assert [each.severity for each in result.findings] == ["error"]


def test_each_pod_of_a_live_cluster_with_an_error_is_counted_though_they_are_one_finding() -> None:
    pods = [pod("a"), pod("b"), pod("c")]
    for each in pods[:2]:
        owner = {"kind": "ReplicaSet", "name": "r", "uid": "uid-of-set"}
        each["metadata"] |= {"annotations": {"volcano.sh/vgpu-mode": "x"}, "ownerReferences": [owner]}
    result = inspect({"Node": [node()], "Pod": pods}, SERVED)
    assert (len(result.findings), result.understood["Pod"]) == (1, 1)


def test_without_a_readable_manifest_nothing_is_counted() -> None:
    result = inspect_given(of_manifests(parse_manifests("kind: [", "x.yaml"), 0.0), SERVED)
    assert (result.objects, result.understood) == ({}, {})
    assert [each.severity for each in result.findings] == ["error"]


def test_skipped_kinds_are_listed() -> None:
    policy = {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "a"}}
    status, out, _ = command("-f", "-", text=yaml.safe_dump_all([node(), pod(), policy]))
    assert status == 0
    assert "Skipped, since nothing is decided by them: 1 NetworkPolicy" in out
    assert "warning: NetworkPolicy a: its kind is not inspected" in out
    daemon = {**policy, "apiVersion": "apps/v1", "kind": "DaemonSet", "spec": {"template": {"spec": pod()["spec"]}}}
    status, out, _ = command("-f", "-", text=yaml.safe_dump_all([node(), pod(), daemon]))
    assert status == 3
    assert "its pods are not checked" in out


def test_statuses_and_usage() -> None:
    status, out, _ = command("-f", "-", text=yaml.safe_dump_all([node(), pod()]))
    assert status == 0
    assert "Everything is understood." in out
    assert command("local:/nowhere")[0] == 1
    assert command("local:/nowhere", "--context", "x")[0] == 2
    status, _, error = command("--kubeconfig", "/nowhere")
    assert (status, error.startswith("deviceshare: no cluster")) == (1, True)
