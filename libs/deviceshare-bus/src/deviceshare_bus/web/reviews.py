"""Kubernetes users: whose token it is and what the user may read, with results cached for a bounded time."""

import asyncio
import hashlib
import math
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Hashable
from typing import Generic, NamedTuple, Protocol, TypeVar

import msgspec

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

ACCEPTED_SECONDS = 60.0
"""Seconds for which a positive result is valid."""
REFUSED_SECONDS = 10.0
"""Seconds for which a negative result is valid; for a namespace :data:`ACCEPTED_SECONDS`, since there are many."""
MAX_TOKENS = 1_000
"""Results of token reviews that are kept."""
MAX_DECISIONS = 50_000
"""Results of access reviews that are kept."""
MAX_NAMESPACES = 5_000
"""Namespaces that are reviewed for a user; the rest is hidden."""
IN_FLIGHT = 16
"""Reviews of tokens that are requested at once, and as many of permissions."""
MAX_AT_ONCE = 8
"""Namespaces that are reviewed at once for a request, so that other users need not wait for all of them."""
MAX_WAITING = 256
"""Tokens, and permissions, that are being reviewed; further ones are refused."""
MAX_USERS = 64
"""Users whose visible namespaces are kept."""
_GET, _PODS = "get", "pods"


class User(msgspec.Struct, frozen=True, cache_hash=True):
    """A user as the API server knows it."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


class ReviewError(Exception):
    """The API server did not answer, or does not permit reviews; the message is for the log."""


class Reviewer(Protocol):
    """Asks the API server. Every method raises ReviewError."""

    async def user(self, token: str) -> User | None:
        """Return whose token it is, None if it is not valid."""
        ...

    async def may_list_pods(self, user: User, namespace: str) -> bool:
        """Return whether a user may list the pods of a namespace, '' for all of them."""
        ...

    async def may_get(self, user: User, path: str) -> bool:
        """Return whether a user may get a non-resource URL."""
        ...


class _Result(NamedTuple, Generic[V]):
    """A result, and until when it is valid."""

    until: float
    value: V


class _Cache(Generic[K, V]):
    """Results by key. Concurrent requests for a key share one review; the result used longest ago is dropped.

    Args:
        what: names the keys in errors.
        most: results that are kept, of those that accept and of those that refuse.
        seconds: for how long a result is valid.
        clock: monotonic seconds.
    """

    def __init__(self, what: str, most: int, seconds: Callable[[K, V], float], clock: Callable[[], float]) -> None:
        self._what = what
        self._most = most
        self._seconds = seconds
        self._clock = clock
        self._slots = asyncio.Semaphore(IN_FLIGHT)
        # Apart: refusals, of which anybody can cause any number, must not push out what was accepted.
        self._accepted: OrderedDict[K, _Result[V]] = OrderedDict()
        self._refused: OrderedDict[K, _Result[V]] = OrderedDict()
        self._reviewing: dict[K, asyncio.Task[_Result[V]]] = {}

    def known(self, key: K) -> _Result[V] | None:
        for results in (self._accepted, self._refused):
            if (found := results.get(key)) is not None and self._clock() < found.until:
                results.move_to_end(key)
                return found
        return None

    async def get(self, key: K, review: Callable[[], Awaitable[V]]) -> _Result[V]:
        if (found := self.known(key)) is not None:
            return found
        task = self._reviewing.get(key)
        if task is None:
            if len(self._reviewing) >= MAX_WAITING:
                raise ReviewError(f"{MAX_WAITING} {self._what} are being reviewed")
            task = self._reviewing[key] = asyncio.ensure_future(self._review(key, review))
            task.add_done_callback(lambda done: self._reviewed(key, done))
        # A client that goes away must not end a review for which others wait.
        return await asyncio.shield(task)

    def _reviewed(self, key: K, done: asyncio.Task[_Result[V]]) -> None:
        del self._reviewing[key]
        if not done.cancelled():
            done.exception()  # raised for those that wait, if any are left

    async def _review(self, key: K, review: Callable[[], Awaitable[V]]) -> _Result[V]:
        async with self._slots:
            value = await review()
        for results in (self._accepted, self._refused):
            results.pop(key, None)
        results = self._accepted if value else self._refused
        results[key] = result = _Result(self._clock() + self._seconds(key, value), value)
        if len(results) > self._most:
            results.popitem(last=False)
        return result


class _Visible(NamedTuple):
    """The namespaces of which a user was reviewed, and those of them that are visible."""

    reviewed: frozenset[str]
    visible: frozenset[str]
    until: float


class Reviews:
    """Reviews with a cache. Errors are not kept.

    Args:
        reviewer: asks the API server.
        clock: monotonic seconds.
    """

    def __init__(self, reviewer: Reviewer, clock: Callable[[], float] = time.monotonic) -> None:
        self._reviewer = reviewer
        self._clock = clock
        # By the digest: the memory of the process need not hold tokens.
        self._users: _Cache[bytes, User | None] = _Cache("tokens", MAX_TOKENS, _seconds_of_token, clock)
        self._decisions: _Cache[tuple[User, str, str], bool] = _Cache(
            "permissions", MAX_DECISIONS, _seconds_of_decision, clock
        )
        self._visible: OrderedDict[User, _Visible] = OrderedDict()

    async def user(self, token: str) -> User | None:
        """Return whose token it is, None if it is not valid. Raises ReviewError."""
        key = hashlib.sha256(token.encode(errors="surrogateescape")).digest()
        return (await self._users.get(key, lambda: self._reviewer.user(token))).value

    async def may_get(self, user: User, path: str) -> bool:
        """Return whether a user may get a non-resource URL. Raises ReviewError."""
        return (await self._decisions.get((user, _GET, path), lambda: self._reviewer.may_get(user, path))).value

    async def may_list_pods(self, user: User, namespace: str) -> bool:
        """Return whether a user may list the pods of a namespace, '' for all of them. Raises ReviewError."""
        return (await self._review_namespace(user, namespace)).value

    async def namespaces(self, user: User, namespaces: Collection[str]) -> frozenset[str] | None:
        """Return those of the namespaces in which a user may list pods, None if in all of them. Raises ReviewError."""
        if await self.may_list_pods(user, ""):
            return None
        wanted = frozenset(namespaces)
        found = self._visible.get(user)
        if found is None or found.reviewed != wanted or self._clock() >= found.until:
            found = self._visible[user] = await self._review_namespaces(user, wanted)
            if len(self._visible) > MAX_USERS:
                self._visible.popitem(last=False)
        self._visible.move_to_end(user)
        return found.visible

    async def _review_namespaces(self, user: User, namespaces: frozenset[str]) -> _Visible:
        names = iter(sorted(namespaces)[:MAX_NAMESPACES])
        visible, until, unknown = set[str](), math.inf, list[str]()

        def take(name: str, result: _Result[bool]) -> None:
            nonlocal until
            until = min(until, result.until)
            if result.value:
                visible.add(name)

        while True:
            for name in names:
                if (known := self._decisions.known((user, _PODS, name))) is not None:
                    take(name, known)
                    continue
                unknown.append(name)
                if len(unknown) == MAX_AT_ONCE:
                    break
            if not unknown:
                return _Visible(namespaces, frozenset(visible), until)
            results = await asyncio.gather(*[self._review_namespace(user, name) for name in unknown])
            for name, result in zip(unknown, results, strict=True):
                take(name, result)
            unknown.clear()

    async def _review_namespace(self, user: User, namespace: str) -> _Result[bool]:
        return await self._decisions.get(
            (user, _PODS, namespace), lambda: self._reviewer.may_list_pods(user, namespace)
        )


def _seconds_of_token(_: bytes, user: User | None) -> float:
    return ACCEPTED_SECONDS if user is not None else REFUSED_SECONDS


def _seconds_of_decision(key: tuple[User, str, str], allowed: bool) -> float:
    _, kind, namespace = key
    return ACCEPTED_SECONDS if allowed or (kind == _PODS and namespace) else REFUSED_SECONDS
