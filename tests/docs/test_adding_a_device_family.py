"""The code of docs/adding-a-device-family.md works."""

import inspect
import json
import re
from pathlib import Path

import pytest
from deviceshare.allocation import Allocator
from deviceshare.conf import SchedulerConf, parse_conf
from deviceshare.families import Family, register
from deviceshare.model import Claim, ContainerRequest, FormatError, NodeFact, PodRequest
from deviceshare.objects import decode_node
from support.families import restored_families

PAGE = Path(__file__).parents[2] / "docs" / "adding-a-device-family.md"
CODE = "\n".join(re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE))
MODULE: dict = {}
exec(compile(CODE, str(PAGE), "exec"), MODULE)  # the page is the source
ACME = MODULE["Acme"]()
CONF = SchedulerConf(families=frozenset({ACME.flag}), policy="binpack", weight=1)


@pytest.fixture(autouse=True)
def _registered():
    """Register it as step 7 says."""
    with restored_families():
        register(ACME)
        yield


def node(name: str, cards: str) -> NodeFact:
    metadata = {"name": name, "annotations": {"acme.example/cards": cards}}
    status = {"allocatable": {"pods": "110", "acme.example/npu": str(cards.count(",") or 0)}}
    return decode_node(json.dumps({"metadata": metadata, "status": status}).encode())


def asks(*numbers: int) -> PodRequest:
    return PodRequest(
        containers=tuple(
            ContainerRequest(f"c{position}", (("acme.example/npu", number),) if number else ())
            for position, number in enumerate(numbers)
        )
    )


def test_it_has_every_member_of_the_protocol():
    for name, member in inspect.getmembers(Family, inspect.isfunction):
        if not name.startswith("_"):
            shown = inspect.signature(getattr(MODULE["Acme"], name))
            assert list(shown.parameters) == list(inspect.signature(member).parameters), name
    annotated = {name for kind in Family.__mro__ for name in getattr(kind, "__annotations__", ())}
    assert {"pod_annotations", "best_node_score", "accounting"} <= annotated <= set(dir(ACME))


def test_it_is_short():
    """Comments and empty lines are not counted."""
    written = [line for line in CODE.splitlines() if line.strip() and not line.lstrip().startswith(("#", '"""'))]
    assert len(written) < 100


def test_its_flag_is_an_argument_of_the_configuration():
    conf = parse_conf("- name: deviceshare\n  arguments: {deviceshare.AcmeEnable: true}", "File conf.yaml")
    assert (conf.families, conf.warnings) == ({"deviceshare.AcmeEnable"}, ())


def test_pods_fill_nodes_and_the_last_one_gets_a_reason():
    allocator = Allocator(CONF)
    allocator.set_node(node("a", "a0,8192;a1,8192"))
    allocator.set_node(node("b", "b0,8192;b1,8192;b2,8192"))
    places = []
    for number in (1, 1, 2):
        placement = allocator.place(asks(0, number))
        allocator.hold(placement.node, f"pod-{len(places)}", placement.grants, placement.resources)
        places.append((placement.node, [device.id for grant in placement.grants for device in grant.devices]))
    assert places == [("a", ["a0"]), ("a", ["a1"]), ("b", ["b0", "b1"])]
    assert allocator.place(asks(2)) is None
    (refusal,) = allocator.why_not(asks(2)).refusals
    assert (refusal.code, refusal.nodes, refusal.asked, refusal.free) == ("NodeInsufficientDevice", 2, 2, 1)


def test_two_containers_of_a_pod_get_different_cards():
    allocator = Allocator(CONF)
    allocator.set_node(node("a", "a0,8192;a1,8192"))
    placement = allocator.place(asks(1, 1))
    assert placement is not None
    assert [[device.id for device in grant.devices] for grant in placement.grants] == [["a0"], ["a1"]]


def test_reading_is_the_inverse_of_writing():
    allocator = Allocator(CONF)
    allocator.set_node(node("a", "a0,8192;a1,8192;a2,8192"))
    ask = asks(2, 0, 1)
    placement = allocator.place(ask)
    claim = Claim(id="1", uid="u", namespace="default", name="p", grants=placement.grants)
    written = ACME.annotations(claim, "a", ["c0", "c1", "c2"], 0.0)
    assert written == {"acme.example/given": "a0,a1;;a2"}
    held = ACME.held(written, ask, "default/p")
    # After a restart, placement charges the devices of the annotations: the usage of the node is unchanged.
    allocator.hold("a", "u", held, ())
    assert allocator.place(asks(1)) is None
    assert ACME.environment(held[0], ()) == {"ACME_VISIBLE_DEVICES": "a0,a1"}


def test_malformed_annotations_are_named():
    assert str(node("a", "a0,8192;a1,much").problems[0]).startswith(
        "Node a: metadata.annotations[acme.example/cards]: 'a1,much' is not valid: expected id,memory"
    )
    with pytest.raises(FormatError, match="expected 1 slots"):
        ACME.held({"acme.example/given": "a0;a1"}, asks(1), "default/p")


def test_requests_that_it_does_not_evaluate_are_refused():
    allocator = Allocator(CONF)
    allocator.set_node(node("a", "a0,8192"))
    ask = PodRequest(init_containers=(ContainerRequest("first", (("acme.example/npu", 1),)),))
    assert allocator.place(ask) is None
    assert "spec.initContainers[first]" in str(allocator.why_not(ask).problem)


def test_it_is_disabled_without_its_flag():
    allocator = Allocator(SchedulerConf())
    allocator.set_node(node("a", "a0,8192"))
    (refusal,) = allocator.why_not(asks(1)).refusals
    assert refusal.code == "FamilyDisabled"
    assert "set deviceshare.AcmeEnable: true" in refusal.text
