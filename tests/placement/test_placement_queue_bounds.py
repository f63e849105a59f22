"""Pods whose cards count in a queue with a bound by what the nodes would give them."""

import pytest
from deviceshare.model import ConfigFact, ContainerGrant, DeviceGrant, GroupKey, PodGroupFact, QueueFact
from msgspec.structs import replace
from support.builders import MEMORY, NUMBER, ask, card, container, node, pod, vgpu
from support.played import Commands, Played

# Groups that cannot start

BOUNDED = """
actions: "enqueue, allocate"
tiers:
- plugins: [{name: PLUGIN}, {name: deviceshare, arguments: {deviceshare.VGPUEnable: true}}]
"""


def of_two_nodes(plugin: str) -> Played:
    """Return a cluster of two cards of 100 MiB, and a queue that may use both."""
    played = Played(node("a", [card(0, memory=100)]), node("b", [card(1, memory=100)]))
    played.put(ConfigFact(name="scheduler", text=BOUNDED.replace("PLUGIN", plugin), source="conf"))
    played.put(QueueFact(name="q", capability={MEMORY: 200}, deserved={MEMORY: 200}))
    return played


def apply(played: Played, name: str, *asks, created: float = 0.0, minimum: int = 0) -> None:
    """Add a PodGroup with these pods, which requests the memory of its minimum."""
    (containers,) = zip(*(what.containers for what in asks), strict=True)
    total = sum((each.get(NUMBER) or 0) * (each.get(MEMORY) or 0) for each in containers)
    played.put(
        PodGroupFact(
            key=GroupKey(f"ns/{name}"), uid=name, queue="q", min_member=minimum or len(asks),
            min_resources={MEMORY: total}, created=created,
        )
    )  # fmt: skip
    for at, what in enumerate(asks):
        played.put(replace(pod(f"{name}-{at}", what, gang=name), queue="q"))


CANNOT_START = {
    "a pod larger than any card": [vgpu(1, 200)],
    "more cards than any node has": [vgpu(2, 100)],
    "a gang that fits on no nodes": [vgpu(1, 60)] * 3,
    "an invalid pod": [vgpu(1, 200, 101)],
    "a model that no card has": [vgpu(1, 200, annotations={"nvidia.com/use-gputype": "H200"})],
    "no node with its label": [replace(vgpu(1, 200), node_selector=(("disk", "ssd"),))],
}


@pytest.mark.parametrize("plugin", ["capacity", "proportion", "overcommit, arguments: {overcommit-factor: 1.0}"])
@pytest.mark.parametrize("asks", CANNOT_START.values(), ids=CANNOT_START)
@pytest.mark.parametrize("together", [False, True])
def test_a_group_that_cannot_start_keeps_no_other_out(plugin, asks, together) -> None:
    played = of_two_nodes(plugin)
    apply(played, "huge", *asks)
    if not together:
        played.tick()
    apply(played, "ordinary", vgpu(1, 100), created=1.0)
    written = played.tick().claims
    assert [claim.name for claim in written] == ["ordinary-0"]


WHY_NOT = {
    "a pod larger than any card": "asked 200 MiB, the largest card that the pod may use has 100 MiB",
    "more cards than any node has": "asked 2, at most 1 usable, 1 missing",
    "a gang that fits on no nodes": "0/2 nodes are unavailable",
    "an invalid pod": "Pod ns/huge-0: ",
    "a model that no card has": "H200",
    "no node with its label": "2 node(s) didn't match Pod's node affinity/selector",
}


@pytest.mark.parametrize(("case", "why"), WHY_NOT.items(), ids=WHY_NOT)
def test_a_group_that_gave_its_promise_back_says_so_once(case: str, why: str) -> None:
    played = of_two_nodes("capacity")
    apply(played, "huge", *CANNOT_START[case])
    admitted = returned_by("huge", played.decided())
    assert admitted == [""]
    apply(played, "ordinary", vgpu(1, 100), created=1.0)
    (text,) = returned_by("huge", played.decided())
    assert text.startswith("gave back what queue 'q' promised it, for others: ")
    assert why in text
    apply(played, "more", vgpu(1, 100), created=2.0)
    assert returned_by("huge", played.decided()) == []


def returned_by(group: str, out: Commands) -> list[str]:
    """Return what explanations of a PodGroup say of its promise."""
    return [each.returned for each in out.explanations if each.group == f"ns/{group}" and each.uid == group]


def test_a_group_that_may_start_later_keeps_its_promise() -> None:
    played = of_two_nodes("capacity")
    apply(played, "first", vgpu(1, 100), vgpu(1, 100))
    played.decided()
    apply(played, "later", vgpu(1, 100), created=1.0)
    out = played.tick()
    assert out.writes == []
    assert any("200 MiB promised" in message for message in out.messages)


def test_a_group_gets_its_promise_again_from_a_node_that_serves_it() -> None:
    played = of_two_nodes("capacity")
    apply(played, "huge", vgpu(1, 200))
    apply(played, "ordinary", vgpu(1, 100), created=1.0)
    played.decided()
    played.put(node("c", [card(2, memory=200)]))
    played.put(replace(QueueFact(name="q", deserved={MEMORY: 300}), capability={MEMORY: 300}))
    out = played.tick()
    assert [claim.name for claim in out.claims] == ["huge-0"]
    assert returned_by("huge", out) == [], "its place says that it may start"
    played.written(out)
    apply(played, "more", vgpu(1, 100), created=2.0)
    assert any("300 MiB promised" in message for message in played.tick().messages)


def test_a_group_that_its_queue_has_to_admit_again_does_not_get_its_promise_again_instead() -> None:
    """Its user changed what it was admitted for, so that inventory does not believe its phase any more."""
    played = of_two_nodes("capacity")
    apply(played, "huge", vgpu(1, 200))
    apply(played, "ordinary", vgpu(1, 100), created=1.0)
    played.decided()
    group = PodGroupFact(
        key=GroupKey("ns/huge"), uid="huge", queue="q", min_member=1, min_resources={MEMORY: 200}, phase="Inqueue"
    )
    played.put(replace(group, admitted=True))
    played.decided()
    small = replace(pod("huge-0", vgpu(1, 50), gang="huge"), queue="q")
    played.put(replace(group, min_resources={MEMORY: 10_000}), small)
    found = [each for each in played.decided().explanations if each.uid == "huge"]
    assert [(each.decision, "is not admitted to its queue" in each.message) for each in found] == [("rejected", True)]


def test_a_whole_card_counts_as_what_the_pod_gets_from_its_claim_on() -> None:
    cards = {"a": card(0, memory=60), "b": card(1, memory=100), "c": card(2, memory=55)}
    played = Played(*(node(name, [each]) for name, each in cards.items()))
    played.put(ConfigFact(name="scheduler", text=BOUNDED.replace("PLUGIN", "capacity"), source="conf"))
    played.put(QueueFact(name="q", capability={MEMORY: 120}))
    taken = (ContainerGrant("c0", 0, "hami-core", (DeviceGrant("GPU-1", 1, 100, 0),)),)
    played.put(pod("other", vgpu(1, 100), node="b", held=taken), replace(pod("whole", vgpu(1)), queue="q"))
    out = played.tick()
    assert [claim.name for claim in out.claims] == ["whole"]
    played.written(out)
    played.put(replace(pod("more", vgpu(1, 50)), queue="q"))
    assert [claim.name for claim in played.tick().claims] == ["more"]


def whole(*, percentage: int = 0):
    """Return a request for a whole small card, or a percentage of it, by the label of its node."""
    more = {"volcano.sh/vgpu-memory-percentage": percentage} if percentage else {}
    return ask(container(**{NUMBER: 1, **more}), node_selector=(("size", "small"),))


def of_two_sizes(plugin: str, small: int) -> Played:
    """Return nodes with a card of 100 MiB or of 40 MiB, and a queue that may use 80 MiB."""
    nodes = [node("large", [card(9, memory=100)], labels={"size": "large"})]
    nodes += [node(f"s{at}", [card(at, memory=40)], labels={"size": "small"}) for at in range(small)]
    played = Played(*nodes)
    played.put(ConfigFact(name="scheduler", text=BOUNDED.replace("PLUGIN", plugin), source="conf"))
    played.put(QueueFact(name="q", capability={MEMORY: 80}))
    return played


@pytest.mark.parametrize("plugin", ["capacity", "proportion"])
@pytest.mark.parametrize("together", [False, True])
def test_a_whole_card_counts_as_the_one_of_the_only_nodes_that_the_pod_may_use(plugin: str, together: bool) -> None:
    played = of_two_sizes(plugin, 3)
    if together:
        played.put(PodGroupFact(key=GroupKey("ns/g"), uid="g", queue="q", min_member=2, phase="Inqueue", admitted=True))
    for at in range(2):
        played.put(replace(pod(f"p{at}", whole(), gang="g" if together else ""), queue="q"))
    out = played.tick()
    assert sorted(claim.name for claim in out.claims) == ["p0", "p1"]
    played.written(out)
    played.put(replace(pod("half", whole(percentage=50)), queue="q"))
    out = played.tick()
    assert not out.claims
    assert any("q" in message and MEMORY in message for message in out.messages)


def test_a_whole_card_of_the_nodes_that_the_pod_may_use_is_waited_for() -> None:
    played = of_two_sizes("capacity", 1)
    played.put(replace(pod("first", whole()), queue="q"))
    played.decided()
    played.put(replace(pod("second", whole()), queue="q"))
    assert not played.tick().claims
    played.put(node("s9", [card(5, memory=40)], labels={"size": "small"}))
    assert [claim.name for claim in played.tick().claims] == ["second"]


def test_other_cards_make_only_pods_be_checked_again_whose_amounts_they_change() -> None:
    played = of_two_sizes("capacity", 1)
    for at in range(50):
        played.put(replace(pod(f"cpu{at}", ask(container(cpu=10**9))), queue="q"))
    played.put(replace(pod("whole", whole()), queue="q"))
    played.decided()
    played.put(replace(pod("more", whole()), queue="q"))
    played.tick()
    played.put(node("other", [card(7, memory=70, model="T4")], labels={"size": "large"}))
    assert not played.core.scheduler.cluster.candidates
    played.put(node("other", [card(7, memory=400)], labels={"size": "large"}))
    assert played.core.scheduler.cluster.candidates == {"pod/uid-more"}


def test_a_pod_to_which_the_free_nodes_would_give_too_much_is_placed_when_another_node_has_room() -> None:
    played = Played(node("a", [card(0, memory=40)]), node("b", [card(1, memory=100)]))
    played.put(ConfigFact(name="scheduler", text=BOUNDED.replace("PLUGIN", "capacity"), source="conf"))
    played.put(QueueFact(name="q", capability={MEMORY: 80}))
    taken = (ContainerGrant("c0", 0, "hami-core", (DeviceGrant("GPU-0", 0, 40, 0),)),)
    runs = pod("runs", vgpu(1, 40), node="a", held=taken)
    played.put(runs, replace(pod("whole", vgpu(1)), queue="q"))
    out = played.tick()
    assert not out.claims
    assert any("80 MiB" in message and "100 MiB asked" in message for message in out.messages)
    played.gone(runs)
    assert [claim.name for claim in played.tick().claims] == ["whole"]


@pytest.mark.parametrize(("capability", "keeps"), [(79, False), (80, True)])
def test_a_group_keeps_its_promise_if_the_smallest_cards_are_within_the_bound(capability: int, *, keeps: bool) -> None:
    played = of_two_sizes("capacity", 2)
    played.put(QueueFact(name="q", capability={MEMORY: capability}))
    for at in range(2):
        taken = (ContainerGrant("c0", 0, "hami-core", (DeviceGrant(f"GPU-{at}", at, 10, 0),)),)
        played.put(pod(f"runs{at}", vgpu(1, 10), node=f"s{at}", held=taken))
    least = {MEMORY: min(capability, 80)}
    played.put(PodGroupFact(key=GroupKey("ns/g"), uid="g", queue="q", min_member=2, min_resources=least))
    for at in range(2):
        played.put(replace(pod(f"p{at}", whole(), gang="g"), queue="q"))
    played.tick()
    apply(played, "ordinary", vgpu(1, 10), created=1.0)
    out = played.tick()
    assert [claim.name for claim in out.claims] == ([] if keeps else ["ordinary-0"])
    assert any("80 MiB promised" in message for message in out.messages) == keeps
