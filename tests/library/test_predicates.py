"""Which nodes a pod may use at all, by kube-scheduler's rules, and the resources of nodes."""

import pytest
from deviceshare.allocation import Rule
from deviceshare.allocation.predicates import admits, discouraging, preferred, reasons
from deviceshare.conf import ALL_PREDICATES, Predicates
from deviceshare.conf.node_plugins import NO_PREDICATES
from deviceshare.model import HostPort, Preference, Requirement, Taint, Toleration, shown, unit_of
from deviceshare.queueing import Group, decide
from msgspec.structs import replace
from support.builders import GIB, ask, cluster, conf, container, node, pod, take

TAINT = Taint("team", "blue", "NoSchedule")


def fits(what, **about) -> bool:
    return cluster(node("n1", **about)).place(what) is not None


def lines(what, **about) -> list[str]:
    return [refusal.line for refusal in cluster(node("n1", **about)).why_not(what).refusals]


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        (Toleration("team", "Equal", "blue", "NoSchedule"), True),
        (Toleration("team", "Equal", "blue", ""), True),
        (Toleration("team", "Exists", "", ""), True),
        (Toleration("", "Exists", "", ""), True),
        (Toleration("", "Exists", "", "NoExecute"), False),
        (Toleration("team", "Equal", "red", ""), False),
        (Toleration("team", "Equal", "blue", "NoExecute"), False),
        (Toleration("other", "Exists", "", ""), False),
    ],
)
def test_tolerations(toleration, tolerated) -> None:
    assert fits(ask(container(), tolerations=(toleration,)), taints=[TAINT]) is tolerated


def test_untolerated_taints_are_named_and_preferences_are_not() -> None:
    assert lines(ask(container()), taints=[TAINT]) == ["1 node(s) had untolerated taint {team: blue}"]
    assert fits(ask(container()), taints=[Taint("team", "blue", "PreferNoSchedule")])
    assert not fits(ask(container()), taints=[Taint("team", "blue", "NoExecute")])


def test_cordoned_and_unready_nodes() -> None:
    cordon = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")
    assert lines(ask(container()), unschedulable=True, taints=[cordon]) == ["1 node(s) were unschedulable"]
    tolerant = ask(container(), tolerations=(Toleration(cordon.key, "Exists", "", ""),))
    assert fits(tolerant, unschedulable=True, taints=[cordon])
    assert lines(ask(container()), ready=False) == ["1 node(s) were not ready"]


def test_a_cordons_taint_alone_is_a_reason_too() -> None:
    cordon = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")
    assert not fits(ask(container()), taints=[cordon])
    assert lines(ask(container()), taints=[cordon]) == [
        "1 node(s) had untolerated taint {node.kubernetes.io/unschedulable: }"
    ]


def test_a_selector_needs_every_label() -> None:
    what = ask(container(), node_selector=(("a", "1"), ("b", "2")))
    assert fits(what, labels={"a": "1", "b": "2", "c": "3"})
    assert lines(what, labels={"a": "1"}) == ["1 node(s) didn't match Pod's node affinity/selector"]


@pytest.mark.parametrize(
    ("requirement", "matches"),
    [
        (Requirement("gpus", "In", ("4", "8")), True),
        (Requirement("gpus", "In", ("4",)), False),
        (Requirement("none", "In", ("8",)), False),
        (Requirement("gpus", "NotIn", ("8",)), False),
        (Requirement("none", "NotIn", ("8",)), True),
        (Requirement("gpus", "Exists", ()), True),
        (Requirement("none", "Exists", ()), False),
        (Requirement("none", "DoesNotExist", ()), True),
        (Requirement("gpus", "Gt", ("7",)), True),
        (Requirement("gpus", "Gt", ("8",)), False),
        (Requirement("gpus", "Lt", ("9",)), True),
        (Requirement("none", "Lt", ("9",)), False),
        (Requirement("word", "Gt", ("1",)), False),
        (Requirement("metadata.name", "In", ("n1",), True), True),
        (Requirement("metadata.name", "NotIn", ("n1",), True), False),
        (Requirement("metadata.name", "In", ("n1",)), False),
    ],
)
def test_requirements(requirement, matches) -> None:
    assert fits(ask(container(), node_terms=((requirement,),)), labels={"gpus": "8", "word": "x"}) is matches


def test_any_term_and_all_of_its_requirements() -> None:
    yes, no = Requirement("a", "Exists", ()), Requirement("b", "Exists", ())
    for terms, expected in ((((yes,), (no,)), True), (((yes, no),), False), ((), False), (((),), False)):
        assert fits(ask(container(), node_terms=terms), labels={"a": ""}) is expected, terms


def test_amounts_are_shown_as_users_write_them() -> None:
    what = ask(container(cpu=2500, memory=64 * GIB, **{"nvidia.com/gpu": 2}))
    assert lines(what, cpu=2000, memory=12 * GIB, **{"nvidia.com/gpu": 1}) == [
        "1 Insufficient cpu (asked 2500m, at most 2 free, 500m missing)",
        "1 Insufficient memory (asked 64Gi, at most 12Gi free, 52Gi missing)",
        "1 Insufficient nvidia.com/gpu (asked 2, at most 1 free, 1 missing)",
    ]


def test_a_node_runs_so_many_pods() -> None:
    one = cluster(node(pods=1))
    take(one, ask(container()), "a")
    assert [refusal.line for refusal in one.why_not(ask(container())).refusals] == ["1 Too many pods"]
    one.release("n1", "a")
    assert one.place(ask(container())) is not None


def test_what_is_not_requested_does_not_matter_on_an_overdrawn_node() -> None:
    one = cluster(node(cpu=1000))
    one.hold("n1", "static", (), (("cpu", 5000),))
    assert one.place(ask(container(memory=1))) is not None
    assert one.place(ask(container(cpu=1))) is None


def test_an_unsupported_requirement_is_refused_by_its_name() -> None:
    what = ask(container(), unsupported=("spec.resourceClaims",))
    assert cluster(node()).place(what) is None
    assert lines(what) == ["the pod uses spec.resourceClaims, which is not evaluated yet"]


@pytest.mark.parametrize("state", ["not-ready", "unreachable"])
def test_a_node_that_is_not_ready_says_so_once(state) -> None:
    taint = Taint(f"node.kubernetes.io/{state}", "", "NoExecute")
    assert lines(ask(container()), ready=False, taints=[taint]) == ["1 node(s) were not ready"]
    assert lines(ask(container()), taints=[taint]) == [f"1 node(s) had untolerated taint {{{taint.key}: }}"]


def test_disabled_predicates_rule_out_no_node() -> None:
    what = ask(container(), node_selector=(("a", "1"),), node_terms=())
    fact = node(taints=[TAINT], unschedulable=True)

    def codes(counting) -> list[str]:
        rule = Rule.of(what, frozenset(), counting)
        found = [reason.code for reason in reasons(rule, fact)]
        assert admits(rule, fact) is not bool(found)
        return found

    assert codes(ALL_PREDICATES) == ["NodeUnschedulable", "NodeAffinityMismatch", "TaintNotTolerated"]
    assert codes(Predicates(node_affinity=False)) == ["NodeUnschedulable", "TaintNotTolerated"]
    assert codes(Predicates(taint_toleration=False)) == ["NodeUnschedulable", "NodeAffinityMismatch"]
    assert codes(NO_PREDICATES) == []


def test_preferences_count_by_weight_and_by_taint() -> None:
    ssd = Requirement("disk", "In", ("ssd",))
    likes = (Preference(10, (ssd,)), Preference(5, (ssd, Requirement("zone", "Exists", ()))), Preference(100, (
        Requirement("zone", "DoesNotExist", ()),)))  # fmt: skip
    assert [preferred(likes, node(labels=labels)) for labels in ({"disk": "ssd", "zone": "a"}, {"zone": "a"}, {})] == [
        15, 0, 100,
    ]  # fmt: skip
    avoid = [Taint("old", "", "PreferNoSchedule"), Taint("slow", "yes", "PreferNoSchedule"), TAINT]
    assert discouraging((), node(taints=avoid)) == 2
    assert discouraging((Toleration("slow", "Equal", "yes", ""),), node(taints=avoid)) == 1
    assert discouraging((Toleration("", "Exists", "", "NoSchedule"),), node(taints=avoid)) == 2


@pytest.mark.parametrize(
    ("label", "matches"), [("1_0", False), (" 9", False), ("٩", False), ("+9", True), ("9" * 19, False)]
)
def test_numbers_are_those_that_go_reads(label, matches) -> None:
    assert fits(ask(container(), node_terms=((Requirement("a", "Gt", ("5",)),),)), labels={"a": label}) is matches


WEB = HostPort("0.0.0.0", "TCP", 80)


def test_two_pods_with_one_port_go_to_two_nodes() -> None:
    web = ask(container(), host_ports=(WEB,))
    two = cluster(node("n1"), node("n2"))
    assert [take(two, web, uid).node for uid in ("a", "b")] == ["n1", "n2"]
    assert [refusal.line for refusal in two.why_not(web).refusals] == [
        "2 node(s) didn't have free ports for the requested pod ports"
    ]
    assert two.place(ask(container(), host_ports=(WEB, HostPort("10.0.0.1", "UDP", 80)))) is None
    assert two.place(ask(container(), host_ports=(HostPort("10.0.0.1", "UDP", 80),))) is not None
    two.set_node(node("n2", labels={"changed": "yes"}))
    assert two.place(web) is None
    two.remove_node("n2")
    two.set_node(node("n2"))
    assert two.place(web) is None
    two.release("n2", "b")
    assert two.place(web).node == "n2"


def test_a_gang_with_one_port_needs_as_many_nodes() -> None:
    pods = tuple(pod(f"p{at}", ask(container(), host_ports=(WEB,)), gang="g") for at in range(2))
    group = Group(key="ns/g", pods=pods, minimum=2)
    one = cluster(node("n1"))
    decision = decide(one, group)
    assert (decision.placed, decision.fitted) == ((), 1)
    assert one.place(pods[0].ask) is not None, "a gang that is not placed leaves its ports"
    one.set_node(node("n2"))
    assert [placement.node for _, placement in decide(one, group).placed] == ["n1", "n2"]


def test_ports_that_do_not_count_are_in_use_all_the_same_when_they_do() -> None:
    web = ask(container(), host_ports=(WEB,))
    one = cluster(node("n1"))
    one.set_configuration(replace(conf(), predicates=Predicates(node_ports=False)))
    take(one, web, "a")
    assert one.place(web) is not None
    one.set_configuration(conf())
    assert one.place(web) is None


def test_what_is_not_evaluated_is_refused_unless_its_predicate_is_off() -> None:
    what = ask(container(), unsupported=("spec.volumes[data]",))
    one = cluster(node("n1"))
    one.set_configuration(replace(conf(), predicates=Predicates(volume_binding=False, volume_zone=False)))
    assert [refusal.text for refusal in one.why_not(what).refusals] == [
        "the pod uses spec.volumes[data], which is not evaluated yet"
    ]
    off = Predicates(volume_binding=False, volume_zone=False, volume_limits=False)
    one.set_configuration(replace(conf(), predicates=off))
    assert one.place(what) is not None


def test_amounts_that_are_shown_add_up() -> None:
    asked, free = 2000 << 30, int(1031.5 * 2**30)
    assert [shown(amount, "bytes") for amount in (asked, free, asked - free)] == ["2000Gi", "1031.5Gi", "968.5Gi"]
    assert [unit_of(name) for name in ("ephemeral-storage", "hugepages-2Mi", "nvidia.com/gpu")] == [
        "bytes",
        "bytes",
        "",
    ]
