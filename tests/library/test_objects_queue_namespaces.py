"""Which namespaces may use a queue, by the annotations of its object."""

import json

import pytest
from deviceshare.objects import decode_queue

NAMES, SELECTOR = "deviceshare.io/namespaces", "deviceshare.io/namespace-selector"
LABELS = (("stage", "dev"), ("team", "x"))


def queue(**annotations):
    given = {"names": NAMES, "selector": SELECTOR}
    metadata = {"name": "q", "annotations": {given[name]: value for name, value in annotations.items()}}
    return decode_queue(json.dumps({"metadata": metadata}).encode())


@pytest.mark.parametrize(
    ("annotations", "served", "serves"),
    [
        ({}, "", True),
        ({"names": "a, ns"}, "a, ns", True),
        ({"names": "a"}, "a", False),
        ({"names": ""}, "none", False),
        ({"names": "nsx"}, "nsx", False),
        ({"selector": "team=x"}, "those labelled team=x", True),
        ({"selector": "team = x , stage=dev"}, "those labelled stage=dev,team=x", True),
        ({"selector": "team=x,stage=prod"}, "those labelled stage=prod,team=x", False),
        ({"names": "a", "selector": "team=x"}, "a and those labelled team=x", True),
        ({"names": "ns", "selector": "team=y"}, "ns and those labelled team=y", True),
    ],
)
def test_a_queue_serves_namespaces_by_name_and_labels(annotations, served, serves):
    found = queue(**annotations)
    assert (found.served, found.serves("ns", LABELS), found.problems) == (served, serves, ())


@pytest.mark.parametrize("selector", ["", "team", "team=x,", "team in (x)", "=x", "a=b=c"])
def test_an_invalid_selector_selects_no_namespace(selector):
    found = queue(selector=selector)
    assert [each.field for each in found.problems] == [f"metadata.annotations[{SELECTOR}]"]
    assert not found.serves("ns", LABELS)
    assert queue(selector=selector, names="ns").serves("ns", LABELS)
