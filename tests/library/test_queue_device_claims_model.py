"""What ResourceClaims count in queues, after each step of a random history, equals what plain lists count."""

from collections import Counter

from deviceshare.conf import default_conf
from deviceshare.model import DeviceClaim, DeviceClaimFact, DeviceResult, PodDeviceClaim, QueueFact
from deviceshare.queueing import Queues
from deviceshare.state import Trial
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from support.builders import pod
from support.counted_claims import BIG, SMALL, choosing, cluster_devices, devices, exactly, small
from support.devices import CPU, allocated, claim

KEYS = ("ns/a", "ns/b", "ns/c")
FACTS = {
    "a": [claim("a", 3, class_name="small"), allocated(claim("a", 3, class_name="small"), [("p", "x")])],
    "b": [choosing("b")],
    "c": [claim("c", 1, class_name="big"), replace(exactly(adminAccess=True), key="ns/c")],
}
ONE = tuple(replace(each, request="r/one") for each in small("s"))
TWO = tuple(replace(each, request="r/two") for each in small("s", "t"))
QUEUES = (QueueFact(name="q", capability={BIG: 1}), QueueFact(name="q"), QueueFact(name="r", deserved={SMALL: 2}))

actions = st.one_of(
    st.tuples(
        st.just("put"),
        st.integers(0, 2),
        st.sampled_from("qr"),
        st.lists(st.sampled_from(KEYS), max_size=3),
        st.floats(0, 3),
    ),
    st.tuples(
        st.sampled_from(["drop", "release", "hold", "hold", "fail"]), st.integers(0, 2), st.sampled_from([ONE, TWO])
    ),
    st.tuples(st.just("claim"), st.sampled_from([each for facts in FACTS.values() for each in facts])),
    st.tuples(st.just("no claim"), st.sampled_from(KEYS)),
    st.tuples(st.just("queue"), st.sampled_from(QUEUES)),
    st.tuples(st.just("no queue"), st.sampled_from("qr")),
)


class Model:
    """Plain lists of what is there, from which everything is counted anew."""

    def __init__(self) -> None:
        self.pods: dict[int, tuple[str, tuple[str, ...], float]] = {}
        self.held: dict[int, tuple[DeviceResult, ...]] = {}
        self.claims: dict[str, DeviceClaimFact] = {}
        self.queues: dict[str, QueueFact] = {}

    def counted(self, key: str) -> dict[str, int]:
        fact = self.claims.get(key)
        if fact is None:
            return {}
        if key == "ns/a":
            return {SMALL: 3 if fact.allocation is None else 1}
        if key == "ns/b":
            users = [at for at, (_, uses, _) in self.pods.items() if key in uses and at in self.held]
            return {SMALL: 2} if users and all(self.held[at] == TWO for at in users) else {BIG: 1}
        return {BIG: 1} if fact.devices.requests[0].exactly.device_class_name == "big" else {}

    def totals(self, *, requested: bool) -> dict[str, Counter[str]]:
        named = {name for queue in self.queues.values() for name in (*queue.capability, *queue.deserved)}
        found = {"q": Counter[str](), "r": Counter[str]()}
        for key in KEYS:
            users = [at for at, (_, uses, _) in self.pods.items() if key in uses]
            placed = [at for at in users if at in self.held]
            among = placed or users if requested else placed
            if among:
                first = min(among, key=lambda at: (self.pods[at][2], f"uid-p{at}"))
                found[self.pods[first][0]].update({n: x for n, x in self.counted(key).items() if n in named})
        return found


@settings(max_examples=300, deadline=None)
@given(st.lists(actions, min_size=5, max_size=25))
def test_each_claim_counts_once_with_its_oldest_placed_pod(history) -> None:
    queues, model = Queues(default_conf()), Model()
    queues.claims.known = known = cluster_devices()
    known_first = [("queue", each) for each in QUEUES[::2]] + [("claim", each) for each, *_ in FACTS.values()]
    known_first += [("put", 0, "q", KEYS[:2], 1.0), ("put", 1, "r", KEYS, 2.0), ("put", 2, "q", KEYS[1:], 0.0)]
    for what, *args in (*known_first, *history):
        if what == "put":
            at, queue, keys, created = args
            if at in model.held and model.pods[at][:2] != (queue, tuple(keys)):
                continue  # a placed pod has the claims that it has
            model.pods[at] = (queue, tuple(keys), created)
            claims = tuple(PodDeviceClaim(f"c{n}", key) for n, key in enumerate(keys))
            fact = pod(f"p{at}", CPU, device_claims=claims, created=created)
            queues.put(fact, queue, fact.group, () if at in model.held else None, given_to(model, at))
        elif what == "drop":
            model.pods.pop(args[0], None)
            model.held.pop(args[0], None)
            queues.drop(f"uid-p{args[0]}")
        elif what == "release":
            model.held.pop(args[0], None)
            queues.release(f"uid-p{args[0]}")
        elif what in ("hold", "fail") and args[0] in model.pods and args[0] not in model.held:
            at, results = args
            others = {model.held[n] for n in model.held if "ns/b" in model.pods[n][1]}
            results = next(iter(others), results)  # the pods of a claim have the same devices
            before = dict(model.held)
            model.held[at] = results
            if what == "hold":
                queues.hold(f"uid-p{at}", (), given_to(model, at))
            else:
                with Trial(queues.undo_log):
                    queues.hold(f"uid-p{at}", (), given_to(model, at))
                    check(queues, model)
                model.held = before
        elif what == "claim":
            model.claims[args[0].key] = args[0]
            known.put(args[0])
            queues.set_claim(args[0].key)
        elif what == "no claim":
            if (gone := model.claims.pop(args[0], None)) is not None:
                known.drop(gone)
            queues.set_claim(args[0])
        elif what == "queue":
            model.queues[args[0].name] = args[0]
            queues.set_queue(args[0])
        elif what == "no queue":
            model.queues.pop(args[0], None)
            queues.remove_queue(args[0])
        check(queues, model)


def given_to(model: Model, at: int) -> tuple[DeviceClaim, ...]:
    if at not in model.held:
        return ()
    return tuple(DeviceClaim(key, "", model.held[at] if key == "ns/b" else ()) for key in model.pods[at][1])


def check(queues: Queues, model: Model) -> None:
    for name, used in model.totals(requested=False).items():
        assert devices(queues.account(name).used) == used
    for name, requested in model.totals(requested=True).items():
        assert devices(queues.account(name).requested) == requested
