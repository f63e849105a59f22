"""Reviews of tokens and permissions are cached and bounded, and one user delays no other."""

import asyncio

import pytest
from deviceshare_bus.web import ReviewError, Reviews, User
from deviceshare_bus.web import reviews as reviewing
from support.reviewer import ALICE, FakeReviewer


async def test_reviews_are_cached_for_a_bounded_time_and_number(monkeypatch: pytest.MonkeyPatch) -> None:
    now, reviewer = [0.0], FakeReviewer()
    reviews = Reviews(reviewer, lambda: now[0])
    assert [*await asyncio.gather(*[reviews.user("of-alice") for _ in range(20)])] == [ALICE] * 20
    assert await reviews.user("of-stranger") is None
    assert reviewer.asked == ["of-alice", "of-stranger"], "concurrent requests share a review"
    now[0] += reviewing.REFUSED_SECONDS
    await reviews.user("of-alice")
    await reviews.user("of-stranger")
    assert reviewer.asked == ["of-alice", "of-stranger", "of-stranger"]
    now[0] = reviewing.ACCEPTED_SECONDS
    await reviews.user("of-alice")
    assert reviewer.asked[3:] == ["of-alice"]

    assert await reviews.namespaces(ALICE, ["theirs", "ours"]) == {"ours"}
    monkeypatch.setattr(reviewing, "MAX_NAMESPACES", 1)
    assert await reviews.namespaces(ALICE, ["theirs", "ours"]) == {"ours"}, "the first by name"
    reviewer.fails = True
    monkeypatch.setattr(reviewing, "MAX_WAITING", 0)
    with pytest.raises(ReviewError, match="0 tokens"):
        await reviews.user("another")
    assert await reviews.user("of-alice") == ALICE


async def test_refused_tokens_do_not_push_out_accepted_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reviewing, "MAX_TOKENS", 3)
    reviewer = FakeReviewer()
    reviews = Reviews(reviewer)
    await reviews.user("of-alice")
    for number in range(10):
        assert await reviews.user(f"random-{number}") is None
    assert await reviews.user("of-alice") == ALICE
    assert reviewer.asked.count("of-alice") == 1
    assert await reviews.user("random-9") is None
    assert await reviews.user("random-0") is None
    assert (reviewer.asked.count("random-9"), reviewer.asked.count("random-0")) == (1, 2), "bounded"


class SlowReviewer(FakeReviewer):
    """Answers after its event is set."""

    def __init__(self) -> None:
        super().__init__()
        self.answers = asyncio.Event()
        self.waiting = 0

    async def may_list_pods(self, user: User, namespace: str) -> bool:
        self.asked.append(f"{user.name} {namespace}")
        self.waiting += 1
        await self.answers.wait()
        self.waiting -= 1
        return namespace.endswith("7")


async def test_many_namespaces_of_one_user_delay_no_other_user() -> None:
    now, reviewer = [0.0], SlowReviewer()
    reviews = Reviews(reviewer, lambda: now[0])
    names = [f"ns{number}" for number in range(1_000)]
    reviewer.answers.set()
    assert await reviews.may_list_pods(ALICE, "") is False
    reviewer.answers.clear()
    listing = asyncio.create_task(reviews.namespaces(ALICE, names))
    while reviewer.waiting < reviewing.MAX_AT_ONCE:
        await asyncio.sleep(0)
    async with asyncio.timeout(60):
        assert await reviews.user("of-alice") == ALICE, "tokens do not wait for permissions"
        bob = asyncio.create_task(reviews.may_list_pods(User("bob"), ""))
        while reviewer.asked[-1] != "bob ":  # requested, though a thousand namespaces of alice are not yet
            await asyncio.sleep(0)
        assert reviewer.waiting == reviewing.MAX_AT_ONCE + 1
        reviewer.answers.set()
        assert await bob is False
        assert await listing == {name for name in names if name.endswith("7")}


async def test_results_of_namespaces_are_known_without_further_reviews(monkeypatch: pytest.MonkeyPatch) -> None:
    now, reviewer = [0.0], SlowReviewer()
    reviewer.answers.set()
    reviews = Reviews(reviewer, lambda: now[0])
    names = [f"ns{number}" for number in range(100)]
    visible = await reviews.namespaces(ALICE, names)
    assert len(reviewer.asked) == 101
    now[0] += reviewing.REFUSED_SECONDS
    looked_up: list[object] = []
    known = reviewing._Cache.known
    monkeypatch.setattr(reviewing._Cache, "known", lambda self, key: looked_up.append(key) or known(self, key))
    assert await reviews.namespaces(ALICE, frozenset(names)) == visible
    assert (len(reviewer.asked), len(looked_up)) == (102, 1), "whether it may list all pods, alone"
    assert await reviews.namespaces(ALICE, [*names, "new7"]) == {*(visible or ()), "new7"}
    assert reviewer.asked[102:] == ["alice new7"]
    now[0] = reviewing.ACCEPTED_SECONDS
    await reviews.namespaces(ALICE, names)
    assert len(reviewer.asked) == 103 + 101, "no result is older than a minute"


async def test_permissions_that_wait_for_reviews_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reviewing, "MAX_WAITING", 3)
    reviewer = SlowReviewer()
    reviews = Reviews(reviewer)
    waiting = [asyncio.create_task(reviews.may_list_pods(User(f"u{number}"), "")) for number in range(3)]
    await asyncio.sleep(0)
    with pytest.raises(ReviewError, match="3 permissions"):
        await reviews.may_list_pods(User("u3"), "")
    shared = asyncio.create_task(reviews.may_list_pods(User("u0"), ""))
    reviewer.answers.set()
    assert await asyncio.gather(*waiting, shared) == [False] * 4
