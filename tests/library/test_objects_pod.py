import pytest
from deviceshare.model import ContainerRequest, HostPort, Tenant, Toleration
from support.pod_objects import container, pod


def asks(**resources):
    return pod({"containers": [container(resources=resources)]})


def test_identity_state_and_schedule():
    fact = pod(
        {"schedulerName": "volcano", "priority": 7, "nodeName": "n1", "schedulingGates": [{"name": "wait"}]},
        {"phase": "Running"},
        resourceVersion="41",
        creationTimestamp="2026-02-03T04:05:06Z",
        deletionTimestamp="2026-02-03T04:06:06Z",
    )
    assert (fact.ref, fact.uid, fact.revision, fact.scheduler) == ("ml/a", "u1", "41", "volcano")
    assert (fact.priority, fact.created, fact.node, fact.gates) == (7, 1770091506.0, "n1", ("wait",))
    assert (fact.ended, fact.terminating, fact.problems) == (False, True, ())


@pytest.mark.parametrize(
    ("phase", "ended"), [("Pending", False), ("Running", False), ("Succeeded", True), ("Failed", True)]
)
def test_a_pod_has_ended_when_its_phase_says_so(phase, ended):
    assert pod({}, {"phase": phase}).ended is ended


@pytest.mark.parametrize(
    ("group", "phase", "deleted", "running"),
    [
        ("gang", "Running", None, True),
        ("gang", "Pending", None, False),
        ("gang", "Running", "2026-02-03T08:00:00Z", False),
        ("", "Running", None, False),
    ],
)
def test_a_pod_of_a_podgroup_says_that_it_runs(group, phase, deleted, running):
    annotations = {"scheduling.k8s.io/group-name": group} if group else {}
    fact = pod({"nodeName": "n"}, {"phase": phase}, annotations=annotations, deletionTimestamp=deleted)
    assert fact.running is running


def test_a_pod_without_annotations_is_a_group_of_one_in_the_default_queue():
    fact = pod({})
    assert (fact.group, fact.queue, fact.task, fact.ask.annotations) == ("pod/u1", "default", "", ())


@pytest.mark.parametrize("prefix", ["scheduling.k8s.io", "scheduling.volcano.sh"])
@pytest.mark.parametrize("queue", ["scheduling.volcano.sh/queue-name", "volcano.sh/queue-name"])
def test_group_queue_and_task_come_from_volcanos_annotations(prefix, queue):
    fact = pod({}, annotations={f"{prefix}/group-name": "job-1", queue: "training", "volcano.sh/task-spec": "worker"})
    assert (fact.group, fact.queue, fact.task) == ("ml/job-1", "training", "worker")


def test_the_task_is_that_of_the_label_where_no_annotation_names_one():
    name = "volcano.sh/task-spec"
    assert pod({}, labels={name: "worker"}).task == "worker"
    assert pod({}, labels={name: "worker"}, annotations={name: ""}).task == "worker"
    assert pod({}, labels={name: "worker"}, annotations={name: "ps"}).task == "ps"


@pytest.mark.parametrize(
    ("text", "priority"),
    [("5", 5), ("-3", -3), ("+4", 4), ("2147483647", 2**31 - 1), ("0", 0)]
    + [(text, 7) for text in ("", "high", " 5", "5.0", "2147483648", "0x5", "1_0", "٣")],
)
def test_a_task_priority_orders_the_pod_in_its_group_and_one_that_is_no_number_is_passed_by(text, priority):
    fact = pod({"priority": 7}, annotations={"volcano.sh/task-priority": text})
    assert (fact.priority_in_group, fact.priority, fact.problems) == (priority, 7, ())


def test_only_annotations_of_device_families_are_part_of_the_request():
    fact = pod({}, annotations={"volcano.sh/vgpu-mode": "hami-core", "volcano.sh/gpu-index": "0,2", "note": "x"})
    assert fact.ask.annotations == (("volcano.sh/gpu-index", "0,2"), ("volcano.sh/vgpu-mode", "hami-core"))
    assert fact.ask == pod({}, annotations=dict(fact.ask.annotations) | {"note": "y"}).ask


@pytest.mark.parametrize(
    ("group", "policy", "apart"),
    [("job-1", "spread", "ml/job-1"), ("job-1", " spread ", "ml/job-1"), ("job-1", None, ""), ("", "spread", "")],
)
def test_a_pod_is_kept_apart_from_its_podgroup_where_it_says_so(group, policy, apart):
    annotations = {"scheduling.k8s.io/group-name": group, "volcano.sh/vgpu-podgroup-policy": policy}
    fact = pod({}, annotations={key: value for key, value in annotations.items() if value})
    assert (fact.ask.apart_group, fact.problems) == (apart, ())


def test_another_policy_towards_the_podgroup_is_a_problem():
    fact = pod({}, annotations={"volcano.sh/vgpu-podgroup-policy": "binpack"})
    (problem,) = fact.problems
    assert str(problem) == (
        "Pod ml/a: metadata.annotations[volcano.sh/vgpu-podgroup-policy]: 'binpack' is not valid: "
        "expected spread, or nothing"
    )


def test_who_a_pod_is_to_its_neighbours_on_a_card():
    labels = {"team": "b", "app": "a"}
    spec = {"containers": [container(resources={"limits": {"volcano.sh/vgpu-number": 1}})]}
    alone = pod(spec, labels=labels)
    grouped = pod(spec, labels=labels, annotations={"scheduling.k8s.io/group-name": "job-1"})
    assert alone.tenant == Tenant("", (("app", "a"), ("team", "b")), "ml")
    assert grouped.tenant == Tenant("ml/job-1", (("app", "a"), ("team", "b")), "ml")


def test_labels_of_a_pod_without_devices_are_kept_since_other_pods_may_select_it():
    spec = {"containers": [container(resources={"requests": {"cpu": 1}})]}
    one, other = pod(spec, labels={"app": "a"}), pod(spec, labels={"app": "b"})
    assert one.labels == (("app", "a"),)
    assert one.ask is other.ask


def test_native_resources_are_requests_and_extended_ones_limits():
    fact = asks(
        requests={"cpu": "500m", "volcano.sh/gpu-memory": "1"},
        limits={"cpu": 2, "memory": "1Gi", "volcano.sh/gpu-memory": 1024, "hugepages-2Mi": "4Mi"},
    )
    assert fact.ask.containers == (
        ContainerRequest(
            "c", (("cpu", 500), ("hugepages-2Mi", 2**22), ("memory", 2**30), ("volcano.sh/gpu-memory", 1024))
        ),
    )


def test_extended_requests_without_limits_count():
    assert asks(requests={"nvidia.com/gpu": "4", "cpu": "1"}).ask.containers[0].resources == (
        ("cpu", 1000),
        ("nvidia.com/gpu", 4),
    )


def test_quantities_as_the_api_server_rewrites_them():
    assert asks(limits={"volcano.sh/gpu-memory": "320k"}).ask.containers[0].get("volcano.sh/gpu-memory") == 320_000


@pytest.mark.parametrize("value", [-1, "-1", 2.5, "2.5", "two", "500m"])
def test_an_invalid_request_is_a_problem_and_the_rest_is_kept(value):
    fact = pod(
        {
            "containers": [
                container("a", resources={"limits": {"volcano.sh/gpu-number": value, "cpu": 1}}),
                container("b"),
            ]
        }
    )
    (problem,) = fact.problems
    assert problem.subject == "Pod ml/a"
    assert problem.field == "spec.containers[a].resources.limits[volcano.sh/gpu-number]"
    assert problem.value == str(value)
    assert "whole number" in problem.expected
    assert fact.ask.containers == (ContainerRequest("a", (("cpu", 1000),)), ContainerRequest("b", ()))


def test_the_problem_names_the_part_that_counts():
    (problem,) = asks(requests={"cpu": "-1", "x/y": 1}, limits={"cpu": 1, "x/y": 1}).problems
    assert problem.field == "spec.containers[c].resources.requests[cpu]"


def test_init_containers_and_sidecars_are_distinguished():
    fact = pod(
        {"containers": [container()], "initContainers": [container("i"), container("s", restartPolicy="Always")]}
    )
    assert [(ask.name, ask.sidecar) for ask in fact.ask.init_containers] == [("i", False), ("s", True)]


def test_overhead_and_selector_are_sorted():
    fact = pod({"overhead": {"memory": "1Ki", "cpu": "10m"}, "nodeSelector": {"b": "2", "a": "1"}})
    assert fact.ask.overhead == (("cpu", 10), ("memory", 1024))
    assert fact.ask.node_selector == (("a", "1"), ("b", "2"))


def test_tolerations_are_equal_in_any_order():
    one, two = {"key": "gpu", "value": "a100", "effect": "NoSchedule"}, {"operator": "Exists"}
    fact = pod({"tolerations": [one, two]})
    assert fact.ask.tolerations == (Toleration("", "Exists", "", ""), Toleration("gpu", "Equal", "a100", "NoSchedule"))
    assert fact.ask == pod({"tolerations": [two, one, two]}).ask


def test_host_ports_of_containers_and_sidecars():
    web = {"containerPort": 80, "hostPort": 8080}
    fact = pod(
        {
            "containers": [container(ports=[web, PORT, {"hostPort": 53, "protocol": "UDP", "hostIP": "10.0.0.1"}])],
            "initContainers": [
                container("side", ports=[{"hostPort": 9}], restartPolicy="Always"),
                container("before", ports=[{"hostPort": 7}]),
            ],
        }
    )
    assert fact.ask.host_ports == (
        HostPort("0.0.0.0", "TCP", 9), HostPort("0.0.0.0", "TCP", 8080), HostPort("10.0.0.1", "UDP", 53),
    )  # fmt: skip
    assert fact.problems == ()


def test_with_the_hosts_network_every_port_is_one_of_the_host():
    on_host = pod({"hostNetwork": True, "containers": [container(ports=[PORT, {"containerPort": 80, "hostPort": 80}])]})
    assert on_host.ask.host_ports == (HostPort("0.0.0.0", "TCP", 80),)


@pytest.mark.parametrize(
    ("port", "field", "expected"),
    [
        ({"hostPort": 70000}, "hostPort", "from 1 to 65535"),
        ({"hostPort": -1}, "hostPort", "from 1 to 65535"),
        ({"hostPort": 80, "protocol": "tcp"}, "protocol", "one of TCP, UDP, SCTP"),
    ],
)
def test_a_port_that_cannot_be_meant_is_a_problem(port, field, expected):
    fact = pod({"containers": [container(ports=[port])]})
    assert fact.ask.host_ports == ()
    (problem,) = fact.problems
    assert (problem.field, problem.expected) == (f"spec.containers[c].ports[0].{field}", expected)


def test_requests_of_the_pod_as_a_whole():
    one = [container(resources={"requests": {"cpu": "1"}, "limits": {"cpu": "2"}})]
    whole = {"requests": {"memory": "1Gi"}, "limits": {"memory": "2Gi", "cpu": "4", "hugepages-2Mi": "4Mi"}}
    fact = pod({"containers": one, "resources": whole})
    assert fact.ask.pod_level == (("hugepages-2Mi", 4 * 2**20), ("memory", 2**30)), "a container asks CPU"
    assert pod({"resources": {"limits": {"cpu": "4"}}}).ask.pod_level == (("cpu", 4000),)


def test_a_pod_as_a_whole_requests_no_devices():
    fact = pod({"resources": {"limits": {"nvidia.com/gpu": 1}}})
    assert fact.ask.pod_level == ()
    assert [str(problem) for problem in fact.problems] == [
        "Pod ml/a: spec.resources.limits[nvidia.com/gpu]: '1' is not valid: "
        "expected cpu, memory or hugepages: other resources cannot be requested at pod level"
    ]


PORT = {"containerPort": 80}


@pytest.mark.parametrize(
    ("spec", "fields"),
    [
        ({"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "x"}}]}, ["spec.volumes[data]"]),
        ({"volumes": [{"name": "tmp", "ephemeral": {}}, {"name": "e", "emptyDir": {}}]}, ["spec.volumes[tmp]"]),
        ({"containers": [container(ports=[PORT])]}, []),
        ({"containers": [container(ports=[PORT | {"hostPort": 80}])]}, []),
        ({"resourceClaims": [{"name": "gpu"}]}, ["spec.resourceClaims"]),
        ({"resources": {"requests": {"cpu": 1}}}, []),
    ],
)  # fmt: skip
def test_unsupported_requirements_are_named(spec, fields):
    assert pod(spec).ask.unsupported == tuple(fields)


VGPU = {"volcano.sh/vgpu-node": "n1", "volcano.sh/vgpu-ids-new": "GPU-a,NVIDIA,3000,50:"}
ONE_VGPU = [container(resources={"limits": {"volcano.sh/vgpu-number": 1}})]


def test_a_bound_pod_holds_what_its_annotations_name():
    fact = pod({"nodeName": "n1", "containers": ONE_VGPU}, annotations=VGPU)
    ((grant),) = fact.held
    assert (grant.container, grant.position) == ("c", 0)
    assert [(device.id, device.memory, device.cores) for device in grant.devices] == [("GPU-a", 3000, 50)]


def test_a_waiting_or_ended_pod_holds_nothing():
    assert pod({"containers": ONE_VGPU}, annotations=VGPU).held == ()
    assert pod({"nodeName": "n1", "containers": ONE_VGPU}, {"phase": "Failed"}, annotations=VGPU).held == ()


def test_unreadable_holdings_are_a_problem():
    fact = pod(
        {"nodeName": "n1", "containers": ONE_VGPU}, annotations=VGPU | {"volcano.sh/vgpu-ids-new": "GPU-a,3000:"}
    )
    assert fact.held == ()
    assert [problem.field for problem in fact.problems] == ["metadata.annotations[volcano.sh/vgpu-ids-new]"]
    assert fact.node == "n1"


@pytest.mark.parametrize(
    ("references", "owner"),
    [
        ([{"kind": "Job", "name": "a"}, {"kind": "ReplicaSet", "name": "b", "controller": True}], "ReplicaSet/b"),
        ([{"kind": "Job", "name": "a"}, {"kind": "Workflow", "name": "b", "controller": False}], "Job/a"),
        ([{"kind": "Job", "name": "x" * 10_000, "controller": True}], f"Job/{'x' * 1020}"),
        ([{}], "/"),
        ([], ""),
        (None, ""),
    ],
)
def test_the_owner_is_the_controller_or_the_first_owner(references, owner):
    fact = pod({"containers": [container()]}, ownerReferences=references)
    assert (fact.owner, fact.problems) == (owner, ())


def test_owners_of_another_form_are_ignored_with_a_problem():
    fact = pod({"containers": [container()]}, ownerReferences="Job")
    assert fact.owner == ""
    assert [problem.field for problem in fact.problems] == ["metadata.ownerReferences"]
