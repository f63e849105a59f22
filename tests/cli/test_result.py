"""The result of `up`."""

import json

from deviceshare.model import Claim, ContainerGrant, DeviceGrant
from deviceshare_cli.pods import PodView
from deviceshare_cli.result import RefusedPod, Rejected, Result, as_json, as_table, pod_results, refused_pod
from deviceshare_metrics.api import PodDevice
from msgspec.structs import replace


def pod(name: str, *, namespace: str = "default", node: str = "", reason: str = "") -> PodView:
    return PodView(namespace, name, f"uid-{name}", "volcano", node, False, {"a": "b"}, reason)


CLAIM = Claim(
    id="c-1",
    uid="uid-b",
    namespace="default",
    name="b",
    grants=(ContainerGrant("main", 0, "gpu-share", (DeviceGrant("0", 0, 1024, 0),)),),
)


def test_pods_are_sorted_and_claims_take_precedence_over_annotations() -> None:
    held = (PodDevice(container="main", id="0", memory=-1, cores=0),)
    results = pod_results(
        [
            (pod("b", node="n1"), held),
            (pod("a", reason="0/1 nodes"), ()),
            (pod("z", namespace="alpha", node="n1"), held),
        ],
        {"uid-b": CLAIM},
        [RefusedPod("default", "aa", {}, "no such amount")],
    )
    assert [(one.namespace, one.name, one.node, one.reason) for one in results] == [
        ("alpha", "z", "n1", None),
        ("default", "a", None, "0/1 nodes"),
        ("default", "aa", None, "no such amount"),
        ("default", "b", "n1", None),
    ]
    assert results[0].devices == held
    assert results[3].devices == (PodDevice(container="main", id="0", memory=1024, cores=0),)


def test_an_unbound_claim_has_no_devices() -> None:
    (result,) = pod_results([(pod("b"), ())], {"uid-b": CLAIM}, [])
    assert (result.node, result.devices, result.reason) == (None, (), None)


def test_an_existing_pod_takes_precedence_over_a_refused_manifest() -> None:
    (result,) = pod_results([(pod("b", node="n1"), ())], {}, [RefusedPod("default", "b", {}, "twice")])
    assert (result.node, result.reason) == ("n1", None)


def test_json_fields() -> None:
    results = pod_results([(pod("b", node="n1"), ())], {"uid-b": CLAIM}, [])
    shown = json.loads(as_json(Result(results, (Rejected("File x.yaml", "does not parse"),), (), True, ())))
    assert shown["pods"] == [
        {
            "namespace": "default",
            "name": "b",
            "node": "n1",
            "devices": [{"container": "main", "id": "0", "memory": 1024, "cores": 0}],
            "annotations": {"a": "b"},
            "reason": None,
            "reason_at": 0.0,
        }
    ]
    assert shown["rejected"] == [{"object": "File x.yaml", "message": "does not parse"}]


def test_refused_pods_of_our_schedulers_are_results() -> None:
    def refused(spec: object) -> RefusedPod | None:
        manifest = {"kind": "Pod", "metadata": {"name": "x", "annotations": {"k": 1}}, "spec": spec}
        return refused_pod(manifest, "", "x", "why", ("volcano",))

    assert refused({"schedulerName": "volcano"}) == RefusedPod("default", "x", {"k": "1"}, "why")
    assert refused({"schedulerName": "other"}) is None
    assert refused(3) is not None


def test_whole_cards_of_a_node_are_devices_in_the_table() -> None:
    claim = replace(CLAIM, grants=(), resources=(("cpu", 1000), ("nvidia.com/gpu", 2)))
    results = pod_results([(pod("b", node="n1"), ())], {"uid-b": claim}, [])
    (_, row) = as_table(results, [replace(claim, name="b", namespace="default")], 0.0).splitlines()
    assert row == "default     b      n1     2 × nvidia.com/gpu"


def test_the_table_is_padded_and_not_truncated() -> None:
    reason = "0/5 nodes are unavailable: " + "x" * 200
    results = pod_results([(pod("b", node="n1"), ()), (pod("a", reason=reason), ())], {"uid-b": CLAIM}, [])
    assert as_table(results, [], 0.0).splitlines() == [
        "NAMESPACE   NAME   NODE     DEVICES        REASON",
        f"default     a      <none>   <none>         {reason}",
        "default     b      n1       0 (1024 MiB)",
    ]


def test_a_reason_has_its_time_in_json_and_its_age_in_the_table() -> None:
    old = replace(pod("old", reason="0/1 nodes"), reason_at=100.0)
    bound = replace(pod("bound", node="n1", reason="0/1 nodes"), reason_at=100.0)
    results = pod_results([(old, ()), (pod("today", reason="1900m used"), ()), (bound, ())], {}, [])
    assert [(one.name, one.reason, one.reason_at) for one in results] == [
        ("bound", None, 0.0), ("old", "0/1 nodes", 100.0), ("today", "1900m used", 0.0),
    ]  # fmt: skip
    assert [row.split("<none>")[-1].strip() for row in as_table(results, [], 100.0 + 31 * 60).splitlines()[2:]] == [
        "0/1 nodes (as of 31m ago)", "1900m used",
    ]  # fmt: skip
