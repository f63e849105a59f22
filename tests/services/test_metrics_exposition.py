"""What Prometheus reads: names, labels, values."""

import msgspec
from deviceshare.model import (
    Card,
    Claim,
    ContainerGrant,
    DeviceGrant,
    NodeFact,
    NodeLedger,
    PodFact,
    PodGroupFact,
    QueueFact,
)
from deviceshare_bus.messages import subjects
from deviceshare_bus.messages.codec import Events, Step, Undecodable
from deviceshare_metrics.core import MetricsCore
from deviceshare_metrics.totals import MIB
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse
from support.metrics import exposed, read

VGPU = Card("GPU-1", 0, 10, 11178, 100, "Tesla-P4", True, "hami-core")
SICK = Card("GPU-2", 1, 10, 11178, 100, "Tesla-P4", False, "hami-core")
SHARED = Card("0", 0, 8000, 8000, 100, mode="gpu-share")


def claim(namespace, name, card, memory, cores=0, containers=("main",), **more):
    share = tuple(ContainerGrant(each, 0, "f", (DeviceGrant(card, 0, memory, cores),)) for each in containers)
    uid = f"{namespace}-{name}"
    return Claim(id=uid, uid=uid, namespace=namespace, name=name, grants=share, **more)


def cluster():
    return read(
        (subjects.fact("node", "gpu"), NodeFact(name="gpu", cards=(VGPU, SICK))),
        (subjects.fact("node", "old"), NodeFact(name="old", cards=(SHARED,))),
        (
            subjects.ledger("gpu"),
            NodeLedger(
                node="gpu",
                claims=(
                    claim("x", "a", "GPU-1", 1024, 10, containers=("one", "two")),
                    claim("y", "a", "GPU-1", 512, 5),
                ),
            ),
        ),
        (subjects.ledger("old"), NodeLedger(node="old", claims=(claim("x", "b", "0", 2000),))),
    )


def scrape(core, accept="", parser=parse):
    families = list(parser(exposed(core, accept)))
    samples = {}
    for family in families:
        for sample in family.samples:
            key = (sample.name, frozenset(sample.labels.items()))
            assert key not in samples, f"two series {key}"
            samples[key] = sample.value
    return samples


def value(samples, name, **labels):
    return samples[name, frozenset(labels.items())]


def series(samples, name):
    return {key for key in samples if key[0] == name}


def test_dashboards_for_volcanos_vgpu_metrics_find_what_they_ask_for():
    samples = scrape(cluster())
    card = {"devID": "GPU-1", "NodeName": "gpu"}
    assert value(samples, "volcano_vgpu_device_memory_limit", **card) == 11178
    assert value(samples, "volcano_vgpu_device_allocated_memory", **card) == 2560
    assert value(samples, "volcano_vgpu_device_allocated_cores", **card) == 25
    assert value(samples, "volcano_vgpu_device_shared_number", **card) == 2
    # The label is the name alone: pods of one name in two namespaces are one series, with the sum.
    a = {**card, "podName": "a"}
    assert value(samples, "volcano_vgpu_device_memory_allocation_for_a_certain_pod", **a) == 2560
    assert value(samples, "volcano_vgpu_device_core_allocation_for_a_certain_pod", **a) == 25


def test_cards_that_are_not_vgpus_are_not_among_volcanos():
    samples = scrape(cluster())
    assert len(series(samples, "volcano_vgpu_device_memory_limit")) == 2
    assert len(series(samples, "deviceshare_card_memory_bytes")) == 3


def test_cards_in_base_units():
    samples = scrape(cluster())
    card = {"node": "gpu", "device": "GPU-1", "type": "Tesla-P4", "mode": "hami-core"}
    assert value(samples, "deviceshare_card_memory_bytes", **card) == 11178 * MIB
    assert value(samples, "deviceshare_card_memory_allocated_bytes", **card) == 2560 * MIB
    assert value(samples, "deviceshare_card_cores", **card) == 100
    assert value(samples, "deviceshare_card_cores_allocated_ratio", **card) == 0.25
    assert value(samples, "deviceshare_card_slots", **card) == 10
    assert value(samples, "deviceshare_card_slots_allocated", **card) == 3
    assert value(samples, "deviceshare_card_pods", **card) == 2
    assert value(samples, "deviceshare_card_healthy", **card) == 1
    assert value(samples, "deviceshare_card_healthy", **{**card, "device": "GPU-2"}) == 0
    two = {"namespace": "x", "pod": "a", "container": "two", "node": "gpu", "device": "GPU-1"}
    assert value(samples, "deviceshare_container_memory_bytes", **two) == 1024 * MIB


def test_counts_name_every_state_also_where_it_is_empty():
    samples = scrape(
        read(
            (subjects.fact("pod", "1"), PodFact(uid="1", namespace="x", name="a", queue="busy")),
            (subjects.fact("queue", "idle"), QueueFact(name="idle")),
        )
    )
    assert value(samples, "deviceshare_pods", state="pending") == 1
    assert value(samples, "deviceshare_pods", state="bound") == 0
    assert value(samples, "deviceshare_claims", state="withdrawing") == 0
    assert value(samples, "deviceshare_nodes", state="not_ready") == 0
    assert value(samples, "deviceshare_queue_pods", queue="busy", state="pending") == 1
    assert value(samples, "deviceshare_queue_pods", queue="idle", state="pending") == 0


def test_a_gang_is_pending_until_enough_of_it_is_placed():
    gang = (subjects.fact("podgroup", "x/g"), PodGroupFact(key="x/g", min_member=2))
    pods = [
        (subjects.fact("pod", f"x-{name}"), PodFact(uid=f"x-{name}", namespace="x", name=name, group="x/g"))
        for name in "abc"
    ]
    assert value(scrape(read(gang)), "deviceshare_gangs_pending") == 0
    assert value(scrape(read(gang, *pods)), "deviceshare_gangs_pending") == 1
    two = (subjects.ledger("n"), NodeLedger(node="n", claims=(claim("x", "a", "0", 1), claim("x", "b", "0", 1))))
    assert value(scrape(read(gang, *pods, two)), "deviceshare_gangs_pending") == 0


def test_what_services_count_is_summed_up():
    steps = (Step("u", "x/a", "seen", 1.0), Step("u", "x/a", "bound", 1.2))
    bad = Undecodable("LEDGER", "ledger.1.n", 3, "no", b"?")
    more = {"conflicts": 2, "undecodable_messages": 1, "steps": 5, "odd name!": 1}
    event = Events(service="placement", instance="i", at=1.0, steps=steps, undecodable=(bad,), counters=more)
    again = msgspec.structs.replace(event, instance="j", steps=(), counters={"conflicts": 3})
    core = read((subjects.event("placement"), event), (subjects.event("placement"), again))
    for accept, parser in (("", parse), ("application/openmetrics-text; version=1.0.0", parse_openmetrics)):
        samples = scrape(core, accept, parser)
        assert value(samples, "deviceshare_conflicts_total", service="placement") == 5
        assert value(samples, "deviceshare_odd_name__total", service="placement") == 1
        assert value(samples, "deviceshare_steps_total", service="placement", step="seen") == 1
        assert len(series(samples, "deviceshare_steps_total")) == 2
        assert value(samples, "deviceshare_undecodable_messages_total", stream="LEDGER") == 1
        assert len(series(samples, "deviceshare_undecodable_messages_total")) == 1
        assert value(samples, "deviceshare_pod_seen_to_bound_seconds_bucket", le="0.25") == 1
        assert value(samples, "deviceshare_pod_seen_to_bound_seconds_bucket", le="0.1") == 0
        assert value(samples, "deviceshare_pod_seen_to_bound_seconds_count") == 1


def test_what_was_repaired_is_counted_by_what_it_was():
    counted = Events(service="placement", instance="p", at=1.0, counters={"reconciled:claim not bound": 2})
    samples = scrape(read((subjects.event("placement"), counted)))
    assert len(series(samples, "deviceshare_reconciled_total")) == 1
    assert value(samples, "deviceshare_reconciled_total", service="placement", what="claim not bound") == 2


def test_cards_of_which_more_is_held_than_there_is():
    taken = NodeLedger(node="gpu", claims=(claim("x", "a", "GPU-1", 8000), claim("x", "b", "GPU-1", 8000)))
    facts = (subjects.fact("node", "gpu"), NodeFact(name="gpu", cards=(VGPU, SICK)))
    assert (
        value(scrape(read(facts, (subjects.ledger("gpu"), taken))), "deviceshare_cards_overcommitted", node="gpu") == 1
    )
    assert not series(scrape(cluster()), "deviceshare_cards_overcommitted")


def test_the_build_and_the_process_are_shown():
    samples = scrape(MetricsCore())
    assert value(samples, "deviceshare_build_info", version="0.2.0") == 1
    assert value(samples, "process_resident_memory_bytes") > 0
