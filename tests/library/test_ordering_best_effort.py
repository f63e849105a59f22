"""Gangs of which some pods request nothing: these come last, and the gang is whole all the same."""

from deviceshare.conf import default_conf
from msgspec.structs import replace
from support.builders import ask, container, node, pod
from support.queue_scene import Scene

CPU_POD = ask(container(cpu=1000))


def mixed(scene, name, requesting, best_effort, **rest):
    """Put a gang in line of which some pods request nothing."""
    pods = [pod(f"{name}-cpu-{at}", CPU_POD, gang=name) for at in range(requesting)]
    pods += [pod(f"{name}-none-{at}", ask(container()), gang=name) for at in range(best_effort)]
    scene.put(*pods, **rest)


def of_cpus(count, pods=100):
    return node("a", cpu=1000 * count, pods=pods)


def test_best_effort_pods_of_a_gang_come_after_all_that_request_something():
    scene = Scene(of_cpus(4))
    mixed(scene, "first", 1, 2, minimum=3, created=1.0)
    scene.single("second", CPU_POD, created=2.0)
    scene.decide()
    assert scene.turns.order == [f"uid-{name}" for name in ("first-cpu-0", "second", "first-none-0", "first-none-1")]


def test_a_gang_whose_best_effort_pods_do_not_fit_takes_nothing_from_those_behind_it():
    scene = Scene(of_cpus(4, pods=3))
    scene.single("first", CPU_POD)
    mixed(scene, "gang", 2, 2, minimum=3, created=1.0)
    scene.single("behind", CPU_POD, created=2.0)
    assert scene.decide() == ["first", "behind"]
    assert scene.reasons["gang-none-1"] == "no room"
    assert scene.reasons.keys() >= {"gang-cpu-0", "gang-none-0"}
    assert scene.allocator.used("a")["cpu"] == 2000
    assert scene.queues.account("default").allocated["cpu"] == 2000
    assert min(scene.until_nothing_is_due()) > 300, "only the guard against starvation looks again"
    scene.end("first")
    assert scene.decide() == []
    scene.end("behind")
    assert scene.turns.order == []
    assert scene.decide() == ["gang-cpu-0", "gang-none-0", "gang-none-1"]


def test_a_gang_is_whole_though_the_round_is_full_before_its_best_effort_pods():
    scene = Scene(of_cpus(4))
    mixed(scene, "gang", 1, 1, minimum=2, created=1.0)
    scene.single("other", ask(container()), priority=5)
    assert scene.decide(most=1) == ["gang-cpu-0", "gang-none-0"]
    assert scene.decide() == ["other"]


def test_best_effort_pods_beyond_the_minimum_are_placed_as_far_as_they_fit():
    scene = Scene(of_cpus(4, pods=3))
    mixed(scene, "gang", 1, 4, minimum=2)
    assert scene.decide() == ["gang-cpu-0", "gang-none-0", "gang-none-1"]


def test_a_gang_is_whole_where_backfill_is_not_configured():
    scene = Scene(of_cpus(4, pods=2), conf=replace(default_conf(), actions=("allocate",)))
    mixed(scene, "gang", 1, 1, minimum=2)
    assert scene.decide() == ["gang-cpu-0", "gang-none-0"]
    scene = Scene(of_cpus(4, pods=1), conf=replace(default_conf(), actions=("allocate",)))
    mixed(scene, "gang", 1, 1, minimum=2)
    assert scene.decide() == []


def test_a_gang_that_gave_back_what_it_got_is_served_by_its_best_effort_pods_alone_once_these_fit():
    scene = Scene(of_cpus(4, pods=3))
    scene.single("a", CPU_POD)
    scene.single("b", CPU_POD)
    scene.decide()
    mixed(scene, "gang", 1, 2, minimum=2)
    assert scene.decide() == []
    scene.allocator.hold("a", "other", (), (("cpu", 2000),))
    scene.come(node("b", cpu=0))
    scene.dispatcher.made_room()
    assert scene.decide() == ["gang-none-0", "gang-none-1"]


def test_best_effort_pods_that_lack_room_are_not_tried_in_every_round(monkeypatch):
    scene = Scene(of_cpus(1, pods=1))
    scene.single("a", CPU_POD)
    scene.decide()
    mixed(scene, "gang", 1, 1, minimum=1)
    scene.decide()
    asked = []
    monkeypatch.setattr(scene.allocator, "place", asked.append)
    scene.decide(now=1e6)
    assert asked == []
    scene.dispatcher.made_room()
    scene.decide(now=1e6)
    assert len(asked) == 2


def test_the_pods_of_a_mixed_gang_that_wait_say_why_though_others_were_placed_in_backfill():
    scene = Scene(of_cpus(1))
    scene.single("a", CPU_POD)
    scene.decide()
    pods = [pod("g-cpu", CPU_POD, gang="g"), pod("g-0", ask(container()), gang="g")]
    scene.put(*pods, pod("g-1", ask(container(), container("other")), gang="g"), minimum=1)
    assert scene.decide() == ["g-0", "g-1"]
    assert scene.reasons == {"g-cpu": "no room"}


def test_a_gang_of_which_a_best_effort_task_does_not_fit_is_not_begun_and_all_its_pods_say_why():
    scene = Scene(of_cpus(4))
    workers = [pod(f"g-w-{at}", CPU_POD, gang="g", task="w") for at in range(2)]
    launcher = pod("g-l-0", ask(container(), node_selector=(("pool", "none"),)), gang="g", task="l")
    scene.put(*workers, launcher, minimum=2, tasks=(("l", 1), ("w", 1)))
    assert scene.decide() == []
    assert scene.reasons == {"g-w-0": "", "g-w-1": "", "g-l-0": "no room"}


def test_a_pod_that_requests_something_as_a_whole_is_not_best_effort():
    assert ask(container()).best_effort
    assert not ask(container(), pod_level=(("cpu", 4000),)).best_effort


def test_nodes_are_not_kept_free_for_a_gang_whose_best_effort_pods_fit_nowhere():
    scene = Scene(of_cpus(1))
    scene.single("now", CPU_POD)
    scene.decide()
    workers = [pod("g-w", CPU_POD, gang="g"), pod("g-l", ask(container(), node_selector=(("pool", "none"),)), gang="g")]
    scene.put(*workers)
    assert scene.decide(now=1000.0) == []
    assert list(scene.dispatcher.reservations) == []
