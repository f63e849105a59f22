"""Ascend 310P in MindCluster mode: the guide's Job, its table of templates row by row, its table of labels."""

import pytest
from msgspec.structs import replace
from support.example_cluster import EXAMPLES, ExampleCluster, PodResult, changed, example_conf, load

CONF = "configurations/ascend-mindcluster-configmap.conf"
JOB = "workloads/ascend-mindcluster-job.yaml"
CORES, ATLAS = "huawei.com/npu-core", "ring-controller.atlas"


def row(number: int) -> str:
    return f"workloads/mindcluster/npu-row-{number:02}.yaml"


def alone(number: int, **labels: str) -> PodResult:
    """Place the pod of a row, with these labels changed, on unused chips."""
    given = {name.replace("_", "-"): value for name, value in labels.items()}
    return ExampleCluster(CONF, "npu-310p").place(changed(row(number), labels=given))


def test_the_job_gets_a_whole_chip():
    (result,) = ExampleCluster(CONF, "npu-310p").run(JOB).values()
    assert (result.pod.ref, result.cards) == ("vnpu/mindx-dls-default-test-0", [0])
    assert result.annotations == {CORES: "0", "predicate-time": "1770105600000000000"}


def test_the_job_needs_a_node_that_its_selector_chooses():
    (result,) = ExampleCluster(CONF, "ascend-310p", "plain").run(JOB).values()
    assert "1 node(s) didn't match Pod's node affinity/selector" in result.message
    assert "1 node(s) had no Ascend 310P chips of MindCluster" in result.message


LEVELS = {"low / other": ("low", "", "medium"), "high": ("high",), "any": ("low", "high", "", "medium")}
ROWS = [
    # row, AI cores, vnpu-dvpp, vnpu-level, template
    (1, 1, "null", "any", "vir01"),
    (2, 2, "null", "low / other", "vir02_1c"),
    (3, 2, "null", "high", "vir02"),
    (5, 4, "yes", "low / other", "vir04_4c_dvpp"),
    (6, 4, "no", "low / other", "vir04_3c_ndvpp"),
    (7, 4, "null", "low / other", "vir04_3c"),
    (8, 4, "yes", "high", "vir04_4c_dvpp"),
    (9, 4, "no", "high", "vir04_3c_ndvpp"),
    (10, 4, "null", "high", "vir04"),
]
DOWNGRADED = [(4, 2, "vir02_1c", ["a", "b"]), (11, 4, "vir04_3c", ["a"])]


@pytest.mark.parametrize(
    ("number", "cores", "dvpp", "level", "template"),
    [(number, cores, dvpp, each, name) for number, cores, dvpp, level, name in ROWS for each in LEVELS[level]],
)
def test_a_row_of_the_table_of_templates(number, cores, dvpp, level, template):
    result = alone(number, vnpu_dvpp=dvpp, vnpu_level=level)
    assert result.pod.ask.containers[0].get(CORES) == cores
    assert (result.details, result.annotations[CORES]) == ([template], f"0-{template}")


@pytest.mark.parametrize(("number", "cores", "template", "before"), DOWNGRADED)
def test_a_row_that_is_downgraded_because_ai_cpus_are_missing(number, cores, template, before):
    cluster = ExampleCluster(CONF, f"npu-row-{number:02}")
    cluster.run(*(f"workloads/mindcluster/npu-row-{number:02}-{letter}.yaml" for letter in before))
    result = cluster.place(row(number))
    assert result.pod.ask.containers[0].get(CORES) == cores
    assert result.annotations[CORES] == f"0-{template}"
    # A downgraded pod is charged what it gets: all 7 AI CPUs of the chip are used, not more.
    assert cluster.allocator.card_state(f"npu-row-{number:02}", "mindcluster-cpus") == [7]


@pytest.mark.parametrize("cores", [8, 16, 24])
@pytest.mark.parametrize("dvpp", ["null", "yes", "no"])
@pytest.mark.parametrize("level", ["low", "high"])
def test_row_12_whole_chips(cores, dvpp, level):
    pod = changed(row(12), labels={"vnpu-dvpp": dvpp, "vnpu-level": level})
    pod["spec"]["containers"][0]["resources"]["limits"][CORES] = str(cores)
    result = ExampleCluster(CONF, "npu-310p").place(pod)
    assert result.annotations[CORES] == ",".join(str(chip) for chip in range(cores // 8))


def test_every_row_is_a_file():
    tested = {number for number, *_ in (*ROWS, *DOWNGRADED)} | {12}
    files = {path.name for path in (EXAMPLES / "workloads" / "mindcluster").glob("npu-row-??.yaml")}
    assert files == {f"npu-row-{number:02}.yaml" for number in tested}
    assert tested == set(range(1, 13))


@pytest.mark.parametrize(
    ("number", "dvpp", "expected"),
    [(1, "yes", "null for 1 AI core"), (2, "yes", "null for 2 AI cores"), (3, "no", "null for 2 AI cores")],
)
def test_a_dvpp_that_is_in_no_row_is_not_scheduled(number, dvpp, expected):
    message = alone(number, vnpu_dvpp=dvpp).message
    assert f"metadata.labels[vnpu-dvpp]: {dvpp!r} is not valid: expected {expected}" in message


@pytest.mark.parametrize(
    ("name", "field", "expected"),
    [
        ("npu-dvpp-mismatch", "metadata.labels[vnpu-dvpp]", "null for 2 AI cores"),
        ("npu-dvpp-unknown", "metadata.labels[vnpu-dvpp]", "null or yes or no"),
        ("npu-three-cores", "resources.limits[huawei.com/npu-core]", "1, 2, 4 or a multiple of 8"),
        ("npu-without-label", "metadata.labels[ring-controller.atlas]", "ascend-310P"),
    ],
)
def test_refused_requests_have_a_reason(name, field, expected):
    message = ExampleCluster(CONF, "npu-310p").place(f"refused/{name}.yaml").message
    assert field in message
    assert expected in message


def test_the_labels_have_the_defaults_of_the_guide():
    """``low``, and DVPP is ignored."""
    pod = changed(row(7))
    pod["metadata"]["labels"] = {ATLAS: "ascend-310P"}
    assert ExampleCluster(CONF, "npu-310p").place(pod).details == ["vir04_3c"]


@pytest.mark.parametrize("kind", ["", "ascend-310", "ascend-910"])
def test_the_task_label_is_that_of_the_atlas_inference_series(kind):
    message = ExampleCluster(CONF, "npu-310p").place(changed(row(7), labels={ATLAS: kind})).message
    assert f"metadata.labels[{ATLAS}]: {kind!r} is not valid: expected ascend-310P" in message


def test_chips_that_are_partitioned_in_advance_are_not_partitioned_again():
    cluster = ExampleCluster("refused/ascend-mindcluster-static.conf", "npu-310p")
    assert "presetVirtualDevice" in cluster.place(row(7)).message


def test_device_plugin_and_scheduler_have_the_same_setting():
    excerpt = (EXAMPLES / "excerpts" / "ascend-device-plugin-args.txt").read_text()
    assert '"-presetVirtualDevice=false"' in excerpt
    assert example_conf(CONF).configurations["init-params"]["presetVirtualDevice"] == "false"


def test_an_unhealthy_chip_is_not_allocated():
    lists = load("configmaps/cluster-info-device-0.yaml")["data"]["cluster-info-device-0"]
    assert '"huawei.com/Ascend310P-Unhealthy":""' in lists
    cluster = ExampleCluster(CONF, "npu-310p")
    node = cluster.nodes["npu-310p"]
    sick = replace(node, cards=(replace(node.cards[0], healthy=False), *node.cards[1:]))
    cluster.allocator.set_node(sick)
    assert cluster.place(row(7)).cards == [1]


def test_all_rows_at_once():
    cluster = ExampleCluster("volcano-scheduler.conf", "npu-310p", "npu-row-04", "npu-row-11")
    running = [f"workloads/mindcluster/npu-row-{name}.yaml" for name in ("04-a", "04-b", "11-a")]
    results = cluster.run(*running, *(row(number) for number in range(1, 13)))
    assert {result.message for result in results.values()} == {""}
    assert len(results) == 12
