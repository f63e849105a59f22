"""Jobs, PodGroups and pods of the local cluster are what Volcano's webhooks and controllers made of the same Jobs.

``tests/data/controllers`` says how these were recorded.
"""

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest
from deviceshare.model import InputError
from deviceshare.model.quantities import parse_quantity
from deviceshare_localcluster.admission import SYSTEM_PRIORITIES, Priorities, admit
from deviceshare_localcluster.job_plugins import FRAMEWORKS
from deviceshare_localcluster.jobs import pod_maker, pod_names
from deviceshare_localcluster.pod_groups import pod_group

RECORDED = Path(__file__).parents[1] / "data" / "controllers" / "jobs.jsonl.gz"
ROWS = [json.loads(line) for line in gzip.decompress(RECORDED.read_bytes()).splitlines()]
MADE = [row for row in ROWS if "podgroup" in row]
for each in MADE:
    for one in each["job"]["spec"]["tasks"]:
        one.setdefault("replicas", 0)  # a 0 is not written
REFUSED = [row for row in ROWS if "refused" in row]
NOT_REFUSED = ("docs/user-guide/how_to_use_resource_strategy_fit_plugin.md#9",)
"""A request of an extended resource without a limit is taken for one, with a warning."""
NAMELESS = ("docs/user-guide/how_to_use_job_ttl.md#1",)
"""``generateName`` is not played."""

every_job = pytest.mark.parametrize("row", MADE, ids=lambda row: row["source"])


def priorities(row: Any) -> Priorities:
    return Priorities(SYSTEM_PRIORITIES | row.get("priorities", {}))


def admitted(given: Any, row: Any) -> Any:
    return admit(
        given, uid=row["job"]["metadata"]["uid"], now="2026-11-22T12:00:00Z", priorities=priorities(row)
    ).object


def pods_of(job: Any) -> dict[str, Any]:
    return {name: pod_maker(job, task)(index) for name, task, index in pod_names(job)}


def test_the_recording_has_all_that_volcano_shows():
    assert (len(ROWS), len(MADE), len(REFUSED)) == (69, 61, 8)


@every_job
def test_the_pod_group_is_the_one_that_the_controller_wrote(row):
    expected = {field: value for field, value in row["podgroup"].items() if field != "status"}
    assert pod_group(row["job"], row.get("priorities", {})) == expected


@every_job
def test_pods_have_the_names_labels_annotations_and_owner_that_the_controller_gave(row):
    made = {name: pod["metadata"] for name, pod in pods_of(row["job"]).items()}
    assert made == {pod["metadata"]["name"]: pod["metadata"] for pod in row["pods"]}


@every_job
def test_the_spec_of_pods_is_the_one_that_the_controller_derives_from_the_template(row):
    if FRAMEWORKS.keys() & (row["job"]["spec"].get("plugins") or {}).keys():
        return  # their variables are not played
    recorded = {pod["metadata"]["name"]: pod["spec"] for pod in row["pods"]}
    for name, made in pods_of(row["job"]).items():
        ours = admitted(masked(made, row["job"]["metadata"]["name"]), row)["spec"]
        assert within(comparable(ours), comparable(recorded[name])) == []


@every_job
def test_the_job_is_admitted_as_by_the_webhook(row):
    if row["source"] in NAMELESS:
        return
    ours, theirs = admitted(row["given"], row)["spec"], row["job"]["spec"]
    for spec in (ours, theirs):
        for task in spec["tasks"]:
            del task["template"]
            if task.get("partitionPolicy"):
                task["partitionPolicy"].setdefault("minPartitions", 0)  # the default of the definition
    assert ours == theirs


@pytest.mark.parametrize("row", REFUSED, ids=lambda row: row["source"])
def test_jobs_that_the_webhook_refuses_are_refused(row):
    if row["source"] in NOT_REFUSED:
        return
    with pytest.raises(InputError):
        admit(row["given"], uid="u", now="2026-11-22T12:00:00Z", priorities=priorities(row))


def masked(pod: Any, job: str) -> Any:
    """Return a pod without the letters that Volcano draws at random for the volumes of a Job."""
    text = re.sub(rf'"({re.escape(job)}(?:-pvc)?)-[0-9a-f]{{12}}"', r'"\1-<letters>"', json.dumps(pod))
    return json.loads(text)


def comparable(value: Any) -> Any:
    """Return a spec with the lists sorted to which plugins add in the order of a map, and amounts as numbers."""
    if isinstance(value, list):
        return [comparable(each) for each in value]
    if not isinstance(value, dict):
        return value
    found = {name: comparable(each) for name, each in value.items()}
    for name in ("env", "volumes", "volumeMounts"):
        if name in found:
            found[name] = sorted(found[name], key=lambda each: json.dumps(each, sort_keys=True))
    for name in ("limits", "requests"):
        if isinstance(found.get(name), dict):
            found[name] = {resource: parse_quantity(amount) for resource, amount in found[name].items()}
    return found


def within(ours: Any, theirs: Any, place: str = "spec") -> list[str]:
    """Return where ours differs from theirs; the API server fills in more defaults than the local cluster."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return [
            found
            for name, value in ours.items()
            for found in within(value, theirs.get(name, "" if value == "" else None), f"{place}.{name}")
        ]
    if isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        return [
            found for at, pair in enumerate(zip(ours, theirs, strict=True)) for found in within(*pair, f"{place}[{at}]")
        ]
    return [] if ours == theirs else [f"{place}: {ours!r} is not {theirs!r}"]
