"""What MindCluster's components write: chips of nodes, what ConfigMaps say of them, what a pod was given."""

import json

import pytest
from deviceshare.families.mindcluster import wire
from deviceshare.families.mindcluster.wire import describes_devices
from deviceshare.model import Card, FormatError
from deviceshare.objects import decode_device_info
from hypothesis import given
from hypothesis import strategies as st

LABELS = {
    "accelerator": "huawei-Ascend310P",
    "servertype": "Ascend310P-8",
    "node.kubernetes.io/npu.chip.name": "310P3",
}
BASE_INFO = '{"Ascend310P-0":{"IP":"","SuperDeviceID":0},"Ascend310P-1":{"IP":"","SuperDeviceID":0}}'
DEVICES = {
    "huawei.com/Ascend310P": "Ascend310P-0,Ascend310P-1",
    "huawei.com/Ascend310P-Fault": "[]",
    "huawei.com/Ascend310P-NetworkUnhealthy": "",
    "huawei.com/Ascend310P-Recovering": "",
    "huawei.com/Ascend310P-Unhealthy": "",
}
CLUSTER = ("mindx-dl", "cluster-info-device-0")
PLUGIN = ("kube-system", "mindx-dl-deviceinfo-n1")


def read(labels=LABELS, base_info=BASE_INFO, devices=DEVICES):
    return wire.read_chips(labels, base_info, devices, "n")


def without(mapping, key):
    return {name: value for name, value in mapping.items() if name != key}


def problem_of(call):
    """Return the problem that a call raises, None where it raises none."""
    try:
        call()
    except FormatError as error:
        return error.problem
    return None


def config_map(namespace, name, data, labels=None):
    metadata = {"namespace": namespace, "name": name, "labels": labels or {}}
    return json.dumps({"metadata": metadata, "data": data}).encode()


def cluster_map(by_node, labels=None, name="cluster-info-device-0"):
    text = by_node if isinstance(by_node, str) else json.dumps(by_node)
    return config_map("mindx-dl", name, {name: text}, {"mx-consumer-volcano": "true"} if labels is None else labels)


def test_a_node_has_its_chips_with_8_ai_cores_each():
    assert read() == (
        Card("Ascend310P-0", 0, 7, 0, 8, "310P3", True, "mindcluster"),
        Card("Ascend310P-1", 1, 7, 0, 8, "310P3", True, "mindcluster"),
    )


def test_chips_stand_by_number_and_vnpus_among_them_are_none():
    names = {"Ascend310P-10": {}, "Ascend310P-2": {}, "Ascend310P-2c-100-0": {}}
    assert [card.index for card in read(base_info=json.dumps(names))] == [2, 10]


@pytest.mark.parametrize("server", ["Ascend310P-8", "Ascend310P-8-dual"])
def test_a_server_type_may_say_more_than_the_cores_of_a_chip(server):
    assert {card.cores for card in read(LABELS | {"servertype": server})} == {8}


@pytest.mark.parametrize("key", ["Unhealthy", "Recovering"])
def test_chips_that_are_sick_or_recovering_are_not_healthy(key):
    cards = read(devices=DEVICES | {f"huawei.com/Ascend310P-{key}": "Ascend310P-1, unknown"})
    assert [card.healthy for card in cards] == [True, False]


def test_a_chip_that_is_not_available_is_in_use_not_sick():
    """The device plugin takes chips in use out of the list of those that are available."""
    assert all(card.healthy for card in read(devices=DEVICES | {"huawei.com/Ascend310P": ""}))


@pytest.mark.parametrize(
    ("labels", "base_info", "devices", "field", "expected"),
    [
        (without(LABELS, "servertype"), BASE_INFO, DEVICES, "metadata.labels[servertype]", "Ascend310P-8"),
        (LABELS | {"servertype": "Ascend310P-10"}, BASE_INFO, DEVICES, "metadata.labels[servertype]", "Ascend310P-8"),
        (without(LABELS, "accelerator"), BASE_INFO, DEVICES, "metadata.labels[accelerator]", "huawei-Ascend310P"),
        (LABELS | {"accelerator": "huawei-Ascend910"}, BASE_INFO, DEVICES, "metadata.labels[accelerator]", "310P"),
        (LABELS, None, DEVICES, "metadata.annotations[baseDeviceInfos]", "a JSON object whose keys are chips"),
        (LABELS, "{}", DEVICES, "metadata.annotations[baseDeviceInfos]", "chips"),
        (LABELS, '["Ascend310P-0"]', DEVICES, "metadata.annotations[baseDeviceInfos]", "chips"),
        (LABELS, '{"Ascend310P-x":{}}', DEVICES, "metadata.annotations[baseDeviceInfos]", "chips"),
        (LABELS, '{"Ascend310P-01":{}}', DEVICES, "metadata.annotations[baseDeviceInfos]", "chips"),
        (LABELS, BASE_INFO, None, "ConfigMap mindx-dl/cluster-info-device-…", "ClusterD or the device plugin"),
        (LABELS, BASE_INFO, {"huawei.com/Ascend910": ""}, "ConfigMap mindx-dl/cluster-info-device-…", "DeviceList"),
    ],
)
def test_what_a_node_lacks_is_named(labels, base_info, devices, field, expected):
    with pytest.raises(FormatError) as raised:
        read(labels, base_info, devices)
    problem = raised.value.problem
    assert (problem.subject, problem.field) == ("Node n", field)
    assert expected in problem.expected


@given(st.text() | st.dictionaries(st.text(), st.none() | st.integers()).map(json.dumps))
def test_any_base_info_is_read_or_refused(text):
    problem = problem_of(lambda: read(base_info=text))
    assert problem is None or (problem.field == f"metadata.annotations[{wire.BASE_INFO}]")
    assert problem is None or len(problem.value) <= 256


# What a pod was given


@pytest.mark.parametrize(
    ("text", "chips", "template"),
    [
        ("0-vir02_1c", (0,), "vir02_1c"),
        ("3-vir04_4c_dvpp", (3,), "vir04_4c_dvpp"),
        ("0", (0,), ""),
        ("1,0", (1, 0), ""),
    ],
)
def test_what_was_written_is_read(text, chips, template):
    assert wire.read_given(text, "ns/a") == (chips, template)
    assert wire.write_given(chips, template) == text


@given(st.lists(st.integers(0, 99), min_size=1, max_size=8, unique=True), st.sampled_from(["", *wire.TEMPLATES]))
def test_reading_is_the_inverse_of_writing(chips, template):
    chips = tuple(chips[:1] if template else chips)
    assert wire.read_given(wire.write_given(chips, template), "ns/a") == (chips, template)


@pytest.mark.parametrize("text", ["", "-", "x", "0,0", "0,", "-vir01", "0-", "0,1-vir01", "-1", "0;1", "99999"])
def test_what_names_no_chips_is_refused(text):
    with pytest.raises(FormatError, match=r"Pod ns/a: metadata\.annotations\[huawei\.com/npu-core\]"):
        wire.read_given(text, "ns/a")


@given(st.text())
def test_any_annotation_is_read_or_refused(text):
    problem = problem_of(lambda: wire.read_given(text, "ns/a"))
    assert problem is None or problem.subject == "Pod ns/a"


@pytest.mark.parametrize(
    ("real", "groups"),
    [
        ("Ascend310P-2c.1cpu-105-0_3", {3}),
        ("Ascend310P-4c-100-0_0", {0}),
        ("Ascend310P-0,Ascend310P-1", set()),
        ("Ascend310P-1c-100-0_1,Ascend310P-1c-101-0_2", {1, 2}),
        ("unmade", set()),
        ("_", set()),
        ("Ascend310P-1c-100-0_x", set()),
        ("", set()),
    ],
)
def test_groups_are_the_last_part_of_a_real_device(real, groups):
    assert wire.groups_of(real) == groups


# ConfigMaps


def test_clusterd_reports_many_nodes_at_once():
    raw = cluster_map(
        {
            "mindx-dl-deviceinfo-n1": {"DeviceList": DEVICES, "UpdateTime": 1, "SuperPodID": -1},
            "mindx-dl-deviceinfo-n2": {"DeviceList": {}},
        }
    )
    assert decode_device_info(raw) == ({"n1": DEVICES, "n2": {}}, (), True)


def test_a_device_plugin_reports_its_own_node():
    text = json.dumps({"DeviceInfo": {"DeviceList": DEVICES, "UpdateTime": 1}, "CheckCode": "x"})
    assert decode_device_info(config_map(*PLUGIN, {"DeviceInfoCfg": text})) == ({"n1": DEVICES}, (), False)


@pytest.mark.parametrize(
    "raw",
    [
        cluster_map(""),
        cluster_map("{}"),
        config_map(*CLUSTER, {}),
        cluster_map({"mindx-dl-deviceinfo-n1": {"DeviceList": DEVICES}}, labels={}),
        config_map(*PLUGIN, {}),
        config_map(*PLUGIN, {"DeviceInfoCfg": ""}),
    ],
)
def test_a_config_map_may_say_nothing(raw):
    assert decode_device_info(raw)[:2] == ({}, ())


def test_what_cannot_be_read_of_one_node_does_not_touch_the_others():
    raw = cluster_map(
        {"mindx-dl-deviceinfo-n1": {"DeviceList": {"a": 1}}, "mindx-dl-deviceinfo-n2": {"DeviceList": DEVICES}}
    )
    devices, (problem,), _ = decode_device_info(raw)
    assert devices == {"n2": DEVICES}
    assert problem.subject == "ConfigMap mindx-dl/cluster-info-device-0"
    assert problem.field == "data[cluster-info-device-0][mindx-dl-deviceinfo-n1]"


@pytest.mark.parametrize(
    "raw",
    [
        cluster_map("[]"),
        cluster_map("{"),
        cluster_map("\x00"),
        config_map(*PLUGIN, {"DeviceInfoCfg": "[]"}),
        config_map(*PLUGIN, {"DeviceInfoCfg": '{"DeviceInfo":{}}'}),
        b"[]",
    ],
)
def test_a_config_map_of_another_form_is_refused(raw):
    with pytest.raises(FormatError, match="ConfigMap"):
        decode_device_info(raw)


@given(st.sampled_from([CLUSTER, PLUGIN]), st.text() | st.recursive(st.none() | st.text(), st.lists).map(json.dumps))
def test_any_text_in_a_config_map_is_read_or_refused(place, text):
    key = "DeviceInfoCfg" if place == PLUGIN else place[1]
    raw = config_map(*place, {key: text}, {"mx-consumer-volcano": "true"})
    problem = problem_of(lambda: decode_device_info(raw))
    assert problem is None or len(problem.value) <= 256


@pytest.mark.parametrize(
    ("namespace", "name", "expected"),
    [
        (*CLUSTER, True),
        (*PLUGIN, True),
        ("kube-system", "cluster-info-device-0", False),
        ("mindx-dl", "mindx-dl-deviceinfo-n1", False),
        ("mindx-dl", "cluster-info-node-cm", False),
    ],
)
def test_config_maps_are_known_by_name_and_namespace(namespace, name, expected):
    assert describes_devices(namespace, name) is expected
