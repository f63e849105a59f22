"""Requirements of node selectors are read as by Kubernetes, of pods, of volumes and of devices alike.

The table is what Kubernetes' labels.Requirement.Matches says: strconv.ParseInt reads numbers.
"""

import pytest
from deviceshare.families.dra import pools
from deviceshare.model import Requirement, device_objects, meets
from support.builders import ask, cluster, container, node

CASES = [
    ("In", ("8",), "8", True),
    ("In", ("8", "9"), "9", True),
    ("In", ("8",), None, False),
    ("In", (), "8", False),
    ("NotIn", ("8",), "8", False),
    ("NotIn", ("8",), "9", True),
    ("NotIn", ("8",), None, True),
    ("Exists", (), "", True),
    ("Exists", (), None, False),
    ("DoesNotExist", (), "", False),
    ("DoesNotExist", (), None, True),
    ("Gt", ("7",), "8", True),
    ("Gt", ("8",), "8", False),
    ("Lt", ("9",), "8", True),
    ("Lt", ("8",), "8", False),
    ("Gt", ("7",), None, False),
    ("Lt", ("7",), None, False),
    ("Gt", ("7",), "x", False),
    ("Gt", ("x",), "8", False),
    ("Gt", (), "8", False),
    ("Gt", ("7", "1"), "8", False),
    ("Gt", ("7",), "1_0", False),
    ("Gt", ("1_0",), "80", False),
    ("Gt", ("7",), " 8", False),
    ("Gt", ("7",), "٩", False),
    ("Gt", ("7",), "+8", True),
    ("Gt", ("-9",), "-8", True),
    ("Gt", ("7",), "", False),
    ("Gt", ("7",), "9223372036854775807", True),
    ("Gt", ("7",), "9223372036854775808", False),
    ("Lt", ("7",), "-9223372036854775808", True),
    ("Lt", ("7",), "-9223372036854775809", False),
    ("Gt", ("7",), "0" * 40 + "8", True),
    ("Near", ("8",), "8", False),
    ("Near", ("8",), None, False),
    ("", (), "8", False),
]


@pytest.mark.parametrize(("operator", "values", "value", "expected"), CASES)
def test_requirements_are_met_as_in_kubernetes(operator, values, value, expected) -> None:
    assert meets(operator, values, value) is expected
    labels = {} if value is None else {"a": value}
    requirement = Requirement("a", operator, values)
    nodes = cluster(node("n1", labels=labels), node("n2", labels={"a": "other"}))
    term = device_objects.Term((device_objects.Requirement("a", operator, values),))
    placed = nodes.place_on("n1", ask(container(), node_terms=((requirement,),)))
    assert (placed is not None) is expected, "a pod"
    matching = nodes.volumes.labels.matching(((requirement,),))[:2].tolist()
    assert matching == [expected, meets(operator, values, "other")], "a volume"
    assert bool(pools.selects(device_objects.NodeSelector((term,)), pools.Place("n1", labels))) is expected, "a device"
