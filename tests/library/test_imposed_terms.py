"""Terms of pods that affect others: of many preferred ones of a namespace the first count, of required ones all."""

import pytest
from deviceshare.allocation import Allocator, pod_classes
from deviceshare.model import HOSTNAME, PodSelection, PodTerm, PodTopology, Requirement, Tenant, WeightedPodTerm
from deviceshare.topology import ImposedTerms, PlacedPods
from deviceshare.topology.imposed_terms import MAX_PREFERENCES
from msgspec.structs import replace
from support.builders import ask, cluster, container, node

LABELS = (("app", "a"),)


def term(number: int, namespace: str = "ml") -> PodTerm:
    selector = (Requirement("app", "In", ("a",)), Requirement(f"own-{number}", "DoesNotExist", ()))
    return PodTerm(HOSTNAME, PodSelection(selector, (namespace,)))


def prefers(*numbers: int, namespace: str = "ml") -> PodTopology:
    weighted = tuple(WeightedPodTerm(1, term(number)) for number in numbers)
    return PodTopology(namespace, LABELS, preferred=weighted)


def numbers(terms: ImposedTerms) -> list[int]:
    """Return the numbers of the terms that select a pod."""
    found = terms.selecting("ml", LABELS)
    selectors = [each.term.pods.selector or () for each in found]
    return [int(selector[1].key.removeprefix("own-")) for selector in selectors]


def test_of_many_preferences_of_a_namespace_the_first_count() -> None:
    terms = ImposedTerms({})
    for number in range(MAX_PREFERENCES):
        assert terms.add(prefers(number))
    assert terms.add(prefers(1000, 1001)) == []
    assert numbers(terms) == list(range(MAX_PREFERENCES))
    assert terms.add(prefers(2000, namespace="other")), "those of another namespace are not affected"
    assert numbers(terms) == [*range(MAX_PREFERENCES), 2000]


def test_a_preference_that_waits_counts_when_another_one_ends() -> None:
    terms = ImposedTerms({})
    for number in range(MAX_PREFERENCES):
        terms.add(prefers(number))
    terms.add(prefers(1000, 1001))
    terms.add(prefers(1001))
    (first,) = terms.remove(prefers(3))
    assert first.term == term(1000)
    terms.remove(prefers(1000, 1001))
    assert 1001 in numbers(terms), "another pod has it"
    for number in range(MAX_PREFERENCES):
        if number != 3:
            terms.remove(prefers(number))
    terms.remove(prefers(1001))
    assert not terms
    assert numbers(terms) == []


def test_required_anti_affinity_always_counts() -> None:
    terms = ImposedTerms({})
    for number in range(3 * MAX_PREFERENCES):
        terms.add(PodTopology("ml", LABELS, anti_affinity=(term(number),)))
    assert len(numbers(terms)) == 3 * MAX_PREFERENCES


def test_terms_of_other_namespaces_are_not_compared() -> None:
    terms = ImposedTerms({})
    terms.add(PodTopology("ml", LABELS, anti_affinity=(term(1, "ml"),)))
    assert terms.selecting("other", LABELS) == ()
    everywhere = replace(term(2), pods=replace(term(2).pods, namespaces=(), namespace_selector=()))
    terms.add(PodTopology("ml", LABELS, anti_affinity=(everywhere,)))
    assert [each.term for each in terms.selecting("other", LABELS)] == [everywhere]


def test_what_is_counted_for_classes_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    one = cluster(node("a", labels={HOSTNAME: "a"}))
    requests = [replace(ask(container(cpu=1)), topology=prefers(number, number + 1000)) for number in range(60)]
    handles = [one.pod_class(request) for request in requests]

    def place_all() -> int:
        for number, request in enumerate(requests):
            placement = one.place(request)
            assert placement is not None
            one.take(str(number), placement, Tenant(labels=LABELS, namespace="ml", topology=request.topology))
        pods = placed(one)
        return pods.size

    unbounded = place_all()
    monkeypatch.setattr(pod_classes, "COUNTED_BYTES", unbounded // 4)
    assert place_all() <= unbounded // 4
    assert len(handles) == len(requests)
    for handle in handles:
        handle.drop_ranking()
    pods = placed(one)
    assert pods.size == 0, "nothing is counted any more"


def placed(one: Allocator) -> PlacedPods | None:
    found: PlacedPods | None = one.__dict__["_placed"]
    return found
