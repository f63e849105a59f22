"""PodGroups, Queues and PodDisruptionBudgets as tables."""

from deviceshare_cli.object_tables import budgets_table, podgroups_table, queues_table

WAITS = {"type": "Unschedulable", "status": "True", "reason": "NotEnoughResources", "message": "queue 'q' has enough"}
READY = {"type": "Scheduled", "status": "True", "reason": "tasks in gang are ready to be scheduled"}


def group(name, phase, *conditions, **spec):
    metadata = {"namespace": "ns", "name": name}
    return {"metadata": metadata, "spec": spec, "status": {"phase": phase, "conditions": list(conditions)}}


def test_a_pending_podgroup_has_a_reason_until_it_is_scheduled():
    head, rows = podgroups_table(
        [group("a", "Pending", WAITS, minMember=2), group("b", "Running", WAITS, READY)], False, 0.0
    )
    assert head == ["NAMESPACE", "NAME", "STATUS", "MINMEMBER", "RUNNINGS", "REASON"]
    assert rows == [
        ["ns", "a", "Pending", "2", "0", "NotEnoughResources: queue 'q' has enough"],
        ["ns", "b", "Running", "1", "0", ""],
    ]


def test_an_old_reason_of_a_podgroup_has_its_age():
    written = WAITS | {"lastTransitionTime": "1970-01-01T00:10:00Z"}
    _, (row,) = podgroups_table([group("a", "Pending", written)], False, 600.0 + 31 * 60)
    assert row[-1] == "NotEnoughResources: queue 'q' has enough (as of 31m ago)"
    _, (row,) = podgroups_table([group("a", "Pending", written)], False, 602.0)
    assert row[-1] == "NotEnoughResources: queue 'q' has enough"


def test_the_wide_table_has_queue_and_minimum_resources():
    _, (row,) = podgroups_table(
        [group("a", "Inqueue", queue="q", minResources={"volcano.sh/vgpu-memory": "10"})], True, 0.0
    )
    assert row == ["ns", "a", "Inqueue", "1", "0", "q", "volcano.sh/vgpu-memory: 10", ""]


def test_a_queue_shows_its_groups_by_phase():
    queue = {"metadata": {"name": "q"}, "spec": {"weight": 3, "capability": {"cpu": "2"}}}
    assert queues_table([queue | {"status": {"state": "Open", "inqueue": 2}}], {}, False)[1] == [
        ["q", "3", "Open", "0", "2", "0", "0", "0", "0", "0", "cpu: 2"]
    ]
    (row,) = queues_table([{"metadata": {"name": "q"}}], {"q": {"Pending": 2, "Gated": 1, "Bound": 4}}, False)[1]
    assert (row[1:3], row[-3:]) == (["1", "<none>"], ["3", "4", "<none>"])


def test_the_wide_table_shows_which_namespaces_may_use_a_queue():
    served = {"deviceshare.io/namespaces": "b,a", "deviceshare.io/namespace-selector": "team=x"}
    queues = [{"metadata": {"name": "q", "annotations": served}}, {"metadata": {"name": "r"}}]
    assert [row[-1] for row in queues_table(queues, {}, True)[1]] == ["a, b and those labelled team=x", "all"]


def test_a_budget_shows_its_limit_and_how_many_pods_may_go():
    metadata = {"namespace": "ns", "creationTimestamp": "1970-01-01T00:00:00Z"}
    least = {"metadata": {**metadata, "name": "a"}, "spec": {"minAvailable": 2}, "status": {"disruptionsAllowed": 1}}
    most = {"metadata": {**metadata, "name": "b"}, "spec": {"maxUnavailable": "30%"}}
    head, rows = budgets_table([least, most], 120.0)
    assert head == ["NAMESPACE", "NAME", "MIN AVAILABLE", "MAX UNAVAILABLE", "ALLOWED DISRUPTIONS", "AGE"]
    assert rows == [["ns", "a", "2", "N/A", "1", "2m"], ["ns", "b", "N/A", "30%", "0", "2m"]]
