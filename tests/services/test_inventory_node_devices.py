"""Nodes whose devices are listed in ConfigMaps: facts follow both, whichever comes first."""

import json

import pytest
from deviceshare.model import Gone
from deviceshare_bus.messages.subjects import SYNCED
from deviceshare_cluster.interface import Change, ChangeType, Listed
from support import inventory
from support.inventory import change

CLUSTERD = ("mindx-dl", "cluster-info-device-0")
PLUGIN = ("kube-system", "mindx-dl-deviceinfo-n1")


def node(name="n1", revision=1, chips=2, offered=True):
    labels = {"accelerator": "huawei-Ascend310P", "servertype": "Ascend310P-8"}
    annotations = {"baseDeviceInfos": json.dumps({f"Ascend310P-{at}": {} for at in range(chips)})}
    status = {"capacity": {"huawei.com/npu-core": str(8 * chips)} if offered else {"cpu": "1"}}
    return change("Node", name, revision, metadata={"labels": labels, "annotations": annotations}, status=status)


def device_list(*sick):
    return {"huawei.com/Ascend310P": "", "huawei.com/Ascend310P-Unhealthy": ",".join(sick)}


def config_map(place, data, revision, labels=None):
    namespace, name = place
    return change("ConfigMap", name, revision, namespace=namespace, metadata={"labels": labels or {}}, data=data)


def clusterd(sick_by_node, revision, place=CLUSTERD, time=0):
    info = {
        f"mindx-dl-deviceinfo-{name}": {"DeviceList": device_list(*sick), "UpdateTime": time}
        for name, sick in sick_by_node.items()
    }
    return config_map(place, {place[1]: json.dumps(info)}, revision, {"mx-consumer-volcano": "true"})


def plugin(sick, revision):
    return config_map(
        PLUGIN, {"DeviceInfoCfg": json.dumps({"DeviceInfo": {"DeviceList": device_list(*sick)}})}, revision
    )


def gone(place, revision):
    return Change(ChangeType.DELETED, "ConfigMap", *place, revision, b"")


class Bus(inventory.Bus):
    """A core and the bus that it writes to."""

    def __init__(self):
        super().__init__()
        self.core = inventory.Driver(schedulers=frozenset())
        self.core.begin_list()
        self.reports = []

    def deliver(self, *changes):
        """Let the cluster change; returns the names of the nodes whose facts were written."""
        before = len(self.log)
        self.core.deliver(changes)
        self.reports += [one.message for one in inventory.work_off(self.core, self)]
        written = [subject for subject, *_ in self.log[before:]]
        return [subject.removeprefix("cluster.node.") for subject in written if subject.startswith("cluster.node.")]

    @property
    def writes(self):
        return [subject for subject, *_ in self.log]

    def healthy(self, name="n1"):
        return [card.healthy for card in self.fact(f"cluster.node.{name}").cards]


@pytest.fixture
def bus():
    return Bus()


def test_a_node_that_is_listed_before_the_config_maps_is_published_once_and_whole(bus):
    bus.deliver(node(), clusterd({"n1": ["Ascend310P-1"]}, 5), Listed(6))
    assert bus.writes.count("cluster.node.n1") == 1
    assert bus.writes[-1] == SYNCED
    assert bus.healthy() == [True, False]
    assert bus.reports == []
    assert bus.core.open_work == 0


def test_only_nodes_whose_description_changed_are_published(bus):
    both = {"n1": [], "n2": []}
    bus.deliver(node("n1"), node("n2", 2), node("n3", 3, offered=False), clusterd(both, 4), Listed(5))
    assert bus.deliver(clusterd(both, 6, time=7)) == [], "a heartbeat changes no device"
    assert bus.deliver(clusterd(both | {"n2": ["Ascend310P-0"], "n3": ["Ascend310P-0"]}, 8)) == ["n2"]
    assert (bus.healthy("n1"), bus.healthy("n2")) == ([True, True], [False, True])
    assert bus.fact("cluster.node.n2").revision == "8", "the newest revision of the node and its ConfigMaps"


def test_a_node_has_a_problem_until_its_chips_are_reported(bus):
    bus.deliver(node(), Listed(2))
    assert bus.fact("cluster.node.n1").cards == ()
    (report,) = bus.reports
    assert report.startswith("Node n1: ConfigMap mindx-dl/cluster-info-device-…")
    assert bus.deliver(clusterd({"n1": []}, 3)) == ["n1"]
    assert bus.healthy() == [True, True]
    assert bus.fact("cluster.node.n1").problems == ()
    assert bus.deliver(gone(CLUSTERD, 4)) == ["n1"]
    assert bus.fact("cluster.node.n1").cards == ()


def test_the_device_plugins_own_config_map_counts_without_clusterd(bus):
    bus.deliver(node(), plugin(["Ascend310P-0"], 2), Listed(3))
    assert bus.healthy() == [False, True]
    assert bus.deliver(clusterd({"n1": ["Ascend310P-1"]}, 4)) == ["n1"]
    assert bus.healthy() == [True, False]
    assert bus.deliver(plugin([], 5)) == []
    assert bus.deliver(gone(CLUSTERD, 6)) == ["n1"]
    assert bus.healthy() == [True, True]


def test_a_node_may_move_from_one_config_map_to_another(bus):
    other = ("mindx-dl", "cluster-info-device-1")
    bus.deliver(node(), clusterd({"n1": []}, 2), Listed(3))
    bus.deliver(clusterd({"n1": ["Ascend310P-0"]}, 4, other), clusterd({}, 5))
    assert bus.healthy() == [False, True]


def test_an_unreadable_config_map_is_reported_and_ignored(bus):
    bus.deliver(node(), clusterd({"n1": []}, 2), Listed(3))
    broken = config_map(CLUSTERD, {CLUSTERD[1]: "{"}, 4, {"mx-consumer-volcano": "true"})
    assert bus.deliver(broken) == ["n1"]
    assert bus.fact("cluster.node.n1").cards == ()
    assert [report.split(":")[0] for report in bus.reports] == ["ConfigMap mindx-dl/cluster-info-device-0", "Node n1"]


def test_a_new_list_begins_anew(bus):
    bus.deliver(node(), node("n2"), clusterd({"n1": [], "n2": []}, 2), Listed(3))
    bus.core.begin_list()
    bus.deliver(clusterd({"n1": ["Ascend310P-0"]}, 8), node(revision=9))
    assert bus.healthy() == [True, True], "nothing is published before the list is complete"
    bus.deliver(Listed(10))
    assert bus.healthy() == [False, True]
    assert isinstance(bus.fact("cluster.node.n2"), Gone)


def test_a_node_that_is_gone_is_not_looked_at_again(bus):
    bus.deliver(node(), clusterd({"n1": []}, 2), Listed(3))
    bus.deliver(Change(ChangeType.DELETED, "Node", "", "n1", 4, b""))
    assert bus.deliver(clusterd({"n1": ["Ascend310P-0"]}, 5)) == []
    assert isinstance(bus.fact("cluster.node.n1"), Gone)
