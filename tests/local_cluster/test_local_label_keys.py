"""The local cluster adds label keys to the selectors of inter-pod affinity, as the API server does."""

from deviceshare_localcluster.admission import Priorities, admit


def admitted(term: dict, labels: dict[str, str]) -> list[dict]:
    """Return the expressions of the selector of a required and of a preferred term."""
    kinds = {
        "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]},
        "podAntiAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": term}]
        },
    }
    spec = {"containers": [{"name": "c", "image": "i"}], "affinity": kinds}
    manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "labels": labels}, "spec": spec}
    found = admit(manifest, uid="u", now="2026-01-01T00:00:00Z", priorities=Priorities()).object["spec"]["affinity"]
    (required,) = found["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    (preferred,) = found["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert required == preferred["podAffinityTerm"]
    return (required.get("labelSelector") or {}).get("matchExpressions", [])


def test_label_keys_of_the_pod_are_added() -> None:
    term = {
        "topologyKey": "zone",
        "labelSelector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]},
        "matchLabelKeys": ["hash", "missing"],
        "mismatchLabelKeys": ["tenant"],
    }
    assert admitted(term, {"hash": "x", "tenant": "t"}) == [
        {"key": "app", "operator": "Exists"},
        {"key": "hash", "operator": "In", "values": ["x"]},
        {"key": "tenant", "operator": "NotIn", "values": ["t"]},
    ]


def test_without_a_selector_nothing_is_added() -> None:
    assert admitted({"topologyKey": "zone", "matchLabelKeys": ["hash"]}, {"hash": "x"}) == []
