"""What queues deserve: the rules of Volcano's plugin proportion, and its rounds, which approach them."""

import pytest
from deviceshare.queueing.proportion import Claimant, deserved, share
from deviceshare.queueing.proportion_rounds import deserved_by_rounds
from hypothesis import given
from hypothesis import strategies as st

GPU, CPU = "volcano.sh/vgpu-memory", "cpu"


def of(total, *queues):
    return [found.get(GPU, 0.0) for found in deserved({GPU: total}, queues)]


def by_rounds(total, *queues):
    guaranteed = {GPU: sum(each.guarantee.get(GPU, 0) for each in queues)}
    return [found[GPU] for found in deserved_by_rounds({GPU: total}, queues, guaranteed)]


def queue(weight=1, request=1000, capability=None, guarantee=None):
    return Claimant(
        weight,
        {GPU: request},
        {} if capability is None else {GPU: capability},
        {} if guarantee is None else {GPU: guarantee},
    )


def test_weights_divide_what_all_queues_request():
    assert of(700, queue(1), queue(2), queue(4)) == pytest.approx([100, 200, 400])


def test_no_queue_deserves_more_than_it_requests_and_others_have_the_rest():
    assert of(700, queue(1), queue(2, request=50), queue(4)) == pytest.approx([130, 50, 520])


def test_no_queue_deserves_more_than_its_capability():
    assert of(700, queue(1), queue(6, capability=100)) == pytest.approx([600, 100])


def test_a_guarantee_is_deserved_even_where_it_is_not_requested():
    assert of(100, queue(1, guarantee=80), queue(1)) == pytest.approx([80, 20])
    assert of(100, queue(1, request=0, guarantee=30), queue(1)) == pytest.approx([30, 70])


def test_no_queue_deserves_unrequested_resources():
    assert of(700, queue(request=10), queue(request=20)) == pytest.approx([10, 20])


def test_resources_are_divided_each_on_its_own():
    hungry = Claimant(1, {CPU: 10, GPU: 1000})
    other = Claimant(1, {CPU: 1000, GPU: 10})
    first, second = deserved({CPU: 100, GPU: 100}, [hungry, other])
    assert first == pytest.approx({CPU: 10, GPU: 90}, abs=0.2)
    assert second == pytest.approx({CPU: 90, GPU: 10}, abs=0.2)


def test_a_share_is_that_of_the_resource_of_which_most_is_had():
    assert share({CPU: 10, GPU: 50}, {CPU: 100.0, GPU: 100.0}) == 0.5
    assert share({CPU: 10}, {GPU: 100.0}) == 0.0
    assert share({CPU: 10}, {}) == 0.0


amounts = st.integers(0, 2**40)


@given(
    amounts.filter(bool),
    st.lists(st.tuples(st.integers(1, 65535), amounts, st.none() | amounts, amounts), min_size=1, max_size=8),
)
def test_all_is_divided_as_far_as_it_is_requested_and_no_bound_is_passed(total, queues):
    scale = sum(guarantee for *_, guarantee in queues) // total + 1
    given_queues = [queue(weight, ask, most, guarantee // scale) for weight, ask, most, guarantee in queues]
    found = of(total, *given_queues)
    guaranteed = sum(each.guarantee[GPU] for each in given_queues)
    allowed = [
        max(
            min(each.request[GPU], each.capability.get(GPU, total), total - guaranteed + each.guarantee[GPU]),
            each.guarantee[GPU],
        )
        for each in given_queues
    ]
    for each, fair, most in zip(given_queues, found, allowed, strict=True):
        assert each.guarantee[GPU] <= fair <= most
    assert sum(found) == pytest.approx(min(total, sum(allowed)), rel=1e-9)
    # Who has less than it might have has no smaller multiple of its weight than others beyond their guarantee.
    hungry = [fair / each.weight for each, fair, most in zip(given_queues, found, allowed, strict=True) if fair < most]
    favoured = [
        fair / each.weight for each, fair in zip(given_queues, found, strict=True) if fair > each.guarantee[GPU]
    ]
    assert not hungry or not favoured or min(hungry) >= max(favoured) * (1 - 1e-9)


def test_rounds_divide_by_weight_what_queues_request_and_may_have():
    assert by_rounds(700, queue(1), queue(2), queue(4)) == pytest.approx([100, 200, 400])
    assert by_rounds(700, queue(1), queue(2, request=50), queue(4)) == pytest.approx([130, 50, 520])
    assert by_rounds(700, queue(1), queue(6, capability=100)) == pytest.approx([600, 100])
    assert by_rounds(700, queue(request=10), queue(request=20)) == pytest.approx([10, 20])
    assert by_rounds(700) == []
    assert by_rounds(700, queue(0), queue(0)) == [0, 0]


def test_rounds_give_guarantees_beyond_what_the_cluster_has():
    assert by_rounds(100, queue(1, guarantee=80), queue(1)) == pytest.approx([80, 20])
    assert by_rounds(90, queue(1, guarantee=60), queue(1), queue(1)) == pytest.approx([60, 30, 30])


def test_rounds_divide_each_resource_on_its_own_and_keep_its_unit():
    """Of pods alone what remains does not count: the others end."""
    hungry = Claimant(1, {CPU: 10, GPU: 1000, "pods": 1})
    other = Claimant(3, {CPU: 1000, GPU: 10, "pods": 1})
    first, second = deserved_by_rounds({CPU: 100, GPU: 100, "pods": 8}, [hungry, other], {})
    assert first == pytest.approx({CPU: 10, "memory": 0, GPU: 90, "pods": 1}, abs=0.2)
    assert second == pytest.approx({CPU: 90, "memory": 0, GPU: 10, "pods": 1}, abs=0.2)


@given(
    st.integers(1, 10**6),
    st.lists(
        st.tuples(st.integers(1, 100), st.integers(0, 10**6), st.none() | st.integers(0, 10**6)), min_size=1, max_size=8
    ),
)
def test_without_guarantees_rounds_approach_what_is_deserved(total, queues):
    given_queues = [queue(*each) for each in queues]
    fair, found = of(total, *given_queues), by_rounds(total, *given_queues)
    assert found == pytest.approx(fair, rel=1e-6, abs=0.01)
