"""Ports of the nodes: one on all addresses is in the way of that port on any, as kube-scheduler has it."""

import pytest
from deviceshare.model import HostPort
from deviceshare.state import ANY_ADDRESS, HostPorts
from hypothesis import given
from hypothesis import strategies as st

WEB = HostPort(ANY_ADDRESS, "TCP", 80)


@pytest.mark.parametrize(
    ("used", "asked", "free"),
    [
        (WEB, WEB, False),
        (WEB, HostPort("10.0.0.1", "TCP", 80), False),
        (HostPort("10.0.0.1", "TCP", 80), WEB, False),
        (HostPort("10.0.0.1", "TCP", 80), HostPort("10.0.0.1", "TCP", 80), False),
        (HostPort("10.0.0.1", "TCP", 80), HostPort("127.0.0.1", "TCP", 80), True),
        (WEB, HostPort(ANY_ADDRESS, "UDP", 80), True),
        (WEB, HostPort(ANY_ADDRESS, "TCP", 81), True),
    ],
)
def test_whether_a_port_is_free(used, asked, free) -> None:
    ports = HostPorts()
    ports.charge(3, (used,), 1)
    assert ports.free(3, (asked,)) is free
    assert ports.free(3, (HostPort(ANY_ADDRESS, "SCTP", 7), asked)) is free
    assert ports.free(4, (asked,))


def test_a_port_is_free_when_the_last_pod_that_uses_it_is_gone() -> None:
    ports = HostPorts()
    ports.charge(0, (WEB,), 1)
    ports.charge(0, (WEB,), 1)  # by a scheduler that looks at no ports
    ports.charge(0, (WEB,), -1)
    assert not ports.free(0, (WEB,))
    ports.charge(0, (WEB,), -1)
    assert ports.free(0, (WEB,))


def test_a_node_that_is_gone_uses_none() -> None:
    ports = HostPorts()
    ports.charge(0, (WEB,), 1)
    ports.clear(0)
    assert ports.free(0, (WEB,))


port = st.builds(
    HostPort, st.sampled_from([ANY_ADDRESS, "10.0.0.1", "10.0.0.2"]), st.sampled_from(["TCP", "UDP"]),
    st.sampled_from([80, 81]),
)  # fmt: skip


def clash(one: HostPort, other: HostPort) -> bool:
    same = (one.protocol, one.port) == (other.protocol, other.port)
    return same and (one.ip == other.ip or ANY_ADDRESS in (one.ip, other.ip))


@given(st.lists(st.lists(port, max_size=3), max_size=5), st.lists(port, max_size=3), st.data())
def test_ports_in_use_are_those_of_existing_pods(pods, asked, data) -> None:
    ports = HostPorts()
    for each in pods:
        ports.charge(0, each, 1)
    gone = data.draw(st.sets(st.sampled_from(range(len(pods))))) if pods else set()
    for at in gone:
        ports.charge(0, pods[at], -1)
    there = [one for at, each in enumerate(pods) if at not in gone for one in each]
    assert ports.free(0, asked) is not any(clash(one, other) for one in there for other in asked)
