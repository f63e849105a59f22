"""The checker of bound pods."""

from deviceshare_lab.checker.cards import Parts
from deviceshare_lab.checker.pods import BoundPods
from deviceshare_lab.world.apiserver import ApiServer
from deviceshare_lab.world.virtual_time import WALL


def test_the_second_of_two_pods_with_one_uid_may_have_other_devices():
    reports = []

    def report(rule, text):
        reports.append(rule)

    api = ApiServer(lambda: WALL)
    pods = BoundPods(report, lambda node: None, Parts())
    api.observers.append(lambda seen: pods.take(seen.after) if seen.after else pods.drop(seen.before))
    for name, index in (("first", "0"), ("second", "1")):
        metadata = {"name": name, "namespace": "default", "uid": "one"}
        pod = {"kind": "Pod", "metadata": metadata, "spec": {"containers": []}, "status": {}}
        api.create(pod)
        api.bind(("Pod", "default", name), "one", "node", {"volcano.sh/gpu-index": index}, "", "another scheduler")
        assert reports == []
        if name == "first":
            api.delete(("Pod", "default", name), "user")

    def move(found):
        found["metadata"]["annotations"] = {"volcano.sh/gpu-index": "0"}
        return True

    api.update(("Pod", "default", "second"), move, "user")
    assert reports == ["a bound pod keeps its devices"]
