"""`/metrics` by detail: what each has, and that the text is the one that prometheus_client would write."""

import itertools

import pytest
from deviceshare.model import Card, Claim, ContainerGrant, DeviceGrant, NodeFact, NodeLedger, PodFact, PodGroupFact
from deviceshare_bus.messages import subjects
from deviceshare_metrics.card_metrics import DETAILS, Detail
from deviceshare_metrics.core import MetricsCore
from deviceshare_metrics.many_series import PART, Gauge, Labels
from deviceshare_metrics.totals import MIB
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.parser import text_string_to_metric_families as parse
from prometheus_client.registry import Collector
from support.metrics import exposed, read

FORMATS = (
    "",
    "text/plain; version=1.0.0",
    "text/plain; version=1.0.0; escaping=allow-utf-8",
    "text/plain; version=1.0.0; escaping=dots",
    "text/plain; version=1.0.0; escaping=values",
    "application/openmetrics-text",
    "application/openmetrics-text; version=1.0.0; escaping=underscores",
    "application/openmetrics-text; version=1.0.0; escaping=dots",
)
VOLCANO = (
    "shared_number", "allocated_memory", "allocated_cores", "memory_limit", "memory_allocation_for_a_certain_pod",
    "core_allocation_for_a_certain_pod",
)  # fmt: skip


def claim(name: str, card: str, memory: int) -> Claim:
    grants = (ContainerGrant("main", 0, "hami-core", (DeviceGrant(card, 0, memory, 10),)),)
    return Claim(id=name, uid=name, namespace="x", name=name, grants=grants)


def cluster() -> MetricsCore:
    def card(number: int, model: str, *, healthy: bool = True) -> Card:
        return Card(f"GPU-{number}", number, 10, 1000, 100, model, healthy, "hami-core")

    return read(
        (
            subjects.fact("node", "a"),
            NodeFact(name="a", cards=(card(0, "A100"), card(1, "A100", healthy=False), card(2, "L4"))),
        ),
        (subjects.fact("node", "b"), NodeFact(name="b", cards=(card(3, "A100"),))),
        (subjects.ledger("a"), NodeLedger(node="a", claims=(claim("p", "GPU-0", 100), claim("q", "GPU-1", 200)))),
        (subjects.ledger("b"), NodeLedger(node="b", claims=(claim("r", "GPU-3", 400),))),
        (subjects.fact("podgroup", "x/job"), PodGroupFact(key="x/job", min_member=1)),
        (subjects.fact("pod", "w"), PodFact(uid="w", namespace="x", name="w", group="x/job")),
        (subjects.fact("pod", "s"), PodFact(uid="s", namespace="x", name="s", group="pod/s")),
    )


def names_and_values(core: MetricsCore, detail: Detail) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in parse(exposed(core, "", detail))
        for sample in family.samples
        if not sample.name.startswith(("process_", "deviceshare_build"))
    }


def test_each_detail_has_all_coarser_series() -> None:
    core = cluster()
    by_detail = [names_and_values(core, detail) for detail in DETAILS]
    for finer, coarser in itertools.pairwise(by_detail):
        assert coarser.items() < finer.items()
    names = [{name for name, _ in found} for found in by_detail]
    for name in VOLCANO:
        assert [f"volcano_vgpu_device_{name}" in each for each in names] == [True, False, False]
    assert ["deviceshare_container_memory_bytes" in each for each in names] == [True, False, False]
    assert ["deviceshare_node_cards" in each for each in names] == [True, True, False]
    assert ["deviceshare_cluster_cards" in each for each in names] == [True, True, True]


def test_sums_of_nodes_and_of_the_cluster_are_those_of_their_cards() -> None:
    found = names_and_values(cluster(), "node")
    a100 = (("mode", "hami-core"), ("type", "A100"))
    node = (("mode", "hami-core"), ("node", "a"), ("type", "A100"))
    assert found["deviceshare_node_cards", node] == 2
    assert found["deviceshare_node_cards_healthy", node] == 1
    assert found["deviceshare_node_card_memory_bytes", node] == 2000 * MIB
    assert found["deviceshare_node_card_memory_allocated_bytes", node] == 300 * MIB
    assert found["deviceshare_cluster_cards", a100] == 3
    assert found["deviceshare_cluster_card_memory_allocated_bytes", a100] == 700 * MIB
    assert found["deviceshare_cluster_card_cores", a100] == 300
    assert found["deviceshare_cluster_card_cores_allocated", a100] == 30
    assert found["deviceshare_cluster_card_slots", a100] == 30
    assert found["deviceshare_cluster_card_slots_allocated", a100] == 3


def test_the_number_of_series_without_cards_does_not_grow_with_pods_and_jobs() -> None:
    few, core = cluster(), cluster()
    for number in range(20):
        name = f"more-{number}"
        read(
            (subjects.fact("pod", name), PodFact(uid=name, namespace="x", name=name, group=f"x/{name}")),
            (subjects.fact("podgroup", f"x/{name}"), PodGroupFact(key=f"x/{name}")),
            into=core,
        )
    for detail in ("node", "cluster"):
        assert names_and_values(few, detail).keys() == names_and_values(core, detail).keys()


def test_pods_without_a_podgroup_are_no_jobs() -> None:
    found = names_and_values(cluster(), "card")
    jobs = [labels for name, labels in found if name == "volcano_job_share"]
    assert jobs == [(("job_id", "job"), ("job_ns", "x"))]
    assert [labels for name, labels in found if name == "volcano_unschedule_task_count"] == [(("job_id", "job"),)]
    assert found["volcano_unschedule_job_count", ()] == 2


class One(Collector):
    def __init__(self, family: GaugeMetricFamily) -> None:
        self._family = family

    def collect(self) -> list[GaugeMetricFamily]:
        return [self._family]


# Without -0.0, which equals 0.0: a gauge writes equal values alike, and no amount is negative.
VALUES = st.floats().map(lambda value: value + 0.0) | st.integers(0, 2**53) | st.booleans()


@given(
    st.lists(st.tuples(st.text(), st.text(), VALUES), max_size=20),
    st.sampled_from(FORMATS),
)
def test_the_text_is_that_of_prometheus_client(series: list[tuple[str, str, float]], accept: str) -> None:
    encode, _ = choose_encoder(accept)
    family = GaugeMetricFamily("deviceshare_a_b", "What % it\n is.", labels=("A", "b_c"))
    for first, second, value in series:
        family.add_metric((first, second), value)
    labels = Labels(("A", "b_c"), [each[:2] for each in series])
    gauge = Gauge("deviceshare_a_b", "What % it\n is.", labels, [value for _, _, value in series])
    expected = encode(One(family)).removesuffix(b"# EOF\n")
    assert b"".join(gauge.encoded(encode)) == expected


@pytest.mark.parametrize("accept", FORMATS)
def test_many_series_are_encoded_in_parts(accept: str) -> None:
    encode, _ = choose_encoder(accept)
    labels = Labels(("n",), [(str(number),) for number in range(2 * PART + 1)])
    gauge = Gauge("x", "X.", labels, [1.0] * (2 * PART + 1))
    parts = list(gauge.encoded(encode))
    assert len(parts) == 4
    assert sum(part.count(b"\n") for part in parts) == 2 * PART + 3


def test_labels_have_to_be_sorted() -> None:
    with pytest.raises(ValueError, match="sorted"):
        Labels(("b", "a"), [])


def test_a_cluster_without_cards_has_all_families() -> None:
    text = exposed(MetricsCore()).partition("# HELP deviceshare_cards_overcommitted")[0]
    assert text.count("# TYPE") == 6 + 9 + 1 + 9 + 9 + 3 + 1 + 2


def test_what_holders_have_adds_up_to_what_is_allocated(monkeypatch: pytest.MonkeyPatch) -> None:
    pods = [
        (subjects.fact("pod", uid), PodFact(uid=uid, namespace=namespace, name=uid, queue="q", owner=owner))
        for uid, namespace, owner in (("p", "x", "Job/a"), ("q", "y", ""), ("r", "x", "Job/b"))
    ]
    core = read(*pods, into=cluster())

    def held(name: str) -> dict[tuple[str, ...], float]:
        found = names_and_values(core, "cluster")
        return {tuple(value for _, value in labels): number for (each, labels), number in found.items() if each == name}

    cards = {("x", "Job", "q", "A100"): (100 + 400) / 1000, ("y", "Pod", "q", "A100"): 200 / 1000}
    assert held("deviceshare_held_cards") == pytest.approx(cards)
    allocated = held("deviceshare_cluster_card_memory_allocated_bytes")
    assert sum(held("deviceshare_held_card_memory_bytes").values()) == sum(allocated.values()) == 700 * MIB
    monkeypatch.setattr("deviceshare_metrics.card_metrics.MAX_OWNER_KINDS", 1)
    bounded = {("x", "Job", "q", "A100"): 0.5, ("y", "(other)", "q", "A100"): 0.2}
    assert held("deviceshare_held_cards") == pytest.approx(bounded)
    monkeypatch.setattr("deviceshare_metrics.card_metrics.MAX_HOLDERS", 1)
    assert held("deviceshare_held_cards") == pytest.approx({("x", "Job", "q", "A100"): 0.5, ("", "", "", ""): 0.2})


def test_a_kind_of_owner_that_cannot_exist_is_no_label() -> None:
    pods = [
        (subjects.fact("pod", uid), PodFact(uid=uid, namespace="x", name=uid, queue="q", owner=f"{kind}/a"))
        for uid, kind in (("p", "K" * 64), ("q", "K" * 63), ("r", "K" * 900))
    ]
    found = names_and_values(read(*pods, into=cluster()), "cluster")
    kinds = {dict(labels)["owner_kind"] for name, labels in found if name == "deviceshare_held_cards"}
    assert kinds == {"K" * 63, "(other)"}
