"""When waiting pods start: a range from how long equal pods waited before, or why there is none. Pure.

The scale of a range is the time in which as many equal pods started last as are before the pod. At regular times one
waiting pod of each kind is *probed*: how much of this scale it waited from then on is known when it starts. A range is
the scale times quantiles of these ratios. Pods that have not started yet count as well, by the estimator of Kaplan and
Meier (1958): otherwise only short waits would be known of late. The quantiles are adapted with each probe whose range
turns out right or wrong (adaptive conformal inference, Gibbs and Candès 2021), but ranges never become narrow because
many were right: those shown are the narrow ones, and would be right too rarely.
"""

from collections import Counter, deque
from collections.abc import Hashable
from itertools import islice
from math import inf
from typing import NamedTuple

import msgspec

COVERAGE = 0.8
"""The share of ranges within which a pod starts."""
INTERVAL = 240.0
"""Seconds between two probes of a kind."""
MAX_PROBES = 500
"""Probes of a kind that count: of 33 hours in which pods waited."""
MAX_STARTS = 500
MAX_KINDS, MAX_OF_OWNER = 512, 8
"""Kinds, and kinds of one owner."""
MIN_PROBES, MIN_STARTS = 30, 20
"""With fewer there is no range."""
STALL = 10
"""No pod starts for longer than that many starts took before: the past does not tell when it goes on.

Starts within MARGIN count as one, as those of the pods of a gang."""
MAX_FACTOR, MARGIN = 30.0, 60.0
"""How many times the earliest time the latest may be, each with so many seconds added."""
_STEP = 0.05
"""How much one probe adapts the share of ranges that may be wrong."""
_MAX_WRONG = 0.3
AT_ONCE = 32
"""Kinds that are probed at one time, in some 30 ms."""
_GOLDEN = 0.618033988749895
"""Multiples of the golden ratio, without their whole parts, are spread evenly: so are the places of the probed pods."""


class StartRange(NamedTuple):
    """Seconds from now within which a pod starts; ``latest`` may be infinite in a probe."""

    earliest: float
    latest: float


class _Probe(msgspec.Struct):
    """A waiting pod at one time; ``ended``: how long it waited from then on. Without ``started`` at least so long."""

    uid: str
    at: float
    scale: float
    expected: StartRange | None
    """None when it has been counted as right or wrong, too."""
    ended: float | None = None
    started: bool = False


class _Kind:
    def __init__(self, owner: str, name: Hashable) -> None:
        self.key = owner, name
        self.waiting: dict[str, float] = {}
        """Since when pods wait, by uid."""
        self.busy = inf
        """Since when there is a waiting pod."""
        self.starts: deque[float] = deque(maxlen=MAX_STARTS)
        self.times: deque[float] = deque(maxlen=STALL)
        """The last starts, each MARGIN after the one before at least."""
        self.probes: deque[_Probe] = deque()
        self.open: dict[str, deque[_Probe]] = {}
        """Those of ``probes`` whose pods wait, by uid: the oldest first."""
        self.due = -inf
        self.turn = 0.0
        self.wrong = 1 - COVERAGE
        """The share of ranges that may be wrong, adapted."""

    def add(self, probe: _Probe) -> None:
        """Add a probe and forget the oldest one if there are too many."""
        self.probes.append(probe)
        self.open.setdefault(probe.uid, deque()).append(probe)
        if len(self.probes) > MAX_PROBES and (first := self.probes.popleft()).ended is None:
            self.open[first.uid].popleft()
            if not self.open[first.uid]:
                del self.open[first.uid]

    def judge(self, probe: _Probe, *, right: bool) -> None:
        probe.expected = None
        self.wrong = min(self.wrong + _STEP * (1 - COVERAGE - (not right)), _MAX_WRONG)


class StartEstimates:
    """Follows waiting pods by owner and kind: those of one kind are equal. Times are seconds of a monotonic clock.

    What the pods of one owner do changes the ranges of this owner only.
    """

    def __init__(self) -> None:
        self._kinds: dict[tuple[str, Hashable], _Kind] = {}
        self._number = Counter[str]()
        """Of kinds, by owner."""
        self._idle: dict[tuple[str, Hashable], None] = {}
        """The kinds without waiting pods, those first that have been without for the longest time."""
        self._kind_of: dict[str, _Kind] = {}

    def __contains__(self, uid: str) -> bool:
        """Return whether a pod is followed."""
        return uid in self._kind_of

    @property
    def followed(self) -> int:
        """How many pods are followed."""
        return len(self._kind_of)

    def wait(self, uid: str, owner: str, kind: Hashable, now: float, since: float = inf) -> None:
        """A pod waits, ``since`` an earlier time, or is of another kind from now on.

        It is not followed if too many kinds have waiting pods, of its owner or all.
        """
        key = owner, kind
        if (before := self._kind_of.get(uid)) is not None:
            if before.key == key:
                return
            self.end(uid, now, started=False)
        if (found := self._kinds.get(key)) is None:
            if not self._make_room(owner):
                return
            found = self._kinds[key] = _Kind(owner, kind)
            self._number[owner] += 1
        self._idle.pop(key, None)
        self._kind_of[uid] = found
        if not found.waiting:
            found.busy = now
        found.waiting[uid] = min(since, now)

    def _make_room(self, owner: str) -> bool:
        """Forget an idle kind if there are too many; return whether there is room for one of an owner."""
        if (of_owner := self._number[owner] >= MAX_OF_OWNER) or len(self._kinds) >= MAX_KINDS:
            if (first := next((key for key in self._idle if key[0] == owner or not of_owner), None)) is None:
                return False
            del self._kinds[first], self._idle[first]
            self._number -= Counter((first[0],))
        return True

    def end(self, uid: str, now: float, *, started: bool) -> None:
        """A pod waits no more: it has started, or is gone."""
        if (kind := self._kind_of.pop(uid, None)) is None:
            return
        del kind.waiting[uid]
        if not kind.waiting:
            self._idle[kind.key] = None
        if started:
            kind.starts.append(now)
            if not kind.times or now - kind.times[-1] >= MARGIN:
                kind.times.append(now)
        for probe in kind.open.pop(uid, ()):
            probe.ended, probe.started = now - probe.at, started
            if started and (expected := probe.expected) is not None:
                kind.judge(probe, right=expected.earliest <= probe.ended <= expected.latest)

    def probe(self, now: float) -> None:
        """Probe a waiting pod of each kind whose turn it is, of some kinds at most."""
        for kind in islice((kind for kind in self._kinds.values() if kind.waiting and kind.due <= now), AT_ONCE):
            kind.due = now + INTERVAL
            kind.turn = (kind.turn + _GOLDEN) % 1.0
            for probe in kind.probes:
                if probe.ended is None and probe.expected is not None and now - probe.at > probe.expected.latest:
                    kind.judge(probe, right=False)
            uid = next(islice(kind.waiting, int(kind.turn * len(kind.waiting)), None))
            if (scale := _scale(kind, uid, now)) > 0.0:
                expected = _range(kind, scale, now)
                kind.add(_Probe(uid, now, scale, None if isinstance(expected, str) else expected))

    def expected(self, uid: str, owner: str, now: float) -> StartRange | str:
        """Return when a waiting pod of an owner starts, or why this is not known."""
        if (kind := self._kind_of.get(uid)) is None:
            of_owner = self._number[owner] >= MAX_OF_OWNER
            return f"too many kinds of pods wait in {'its namespace' if of_owner else 'all namespaces together'}"
        found = _range(kind, _scale(kind, uid, now), now)
        if not isinstance(found, str) and found.latest + MARGIN > MAX_FACTOR * (found.earliest + MARGIN):
            return f"the latest time would be more than {MAX_FACTOR:.0f} times the earliest"
        return found


def _scale(kind: _Kind, uid: str, now: float) -> float:
    """Return the time in which as many pods started last as are before this one, and itself; 0 if none is known."""
    since = kind.waiting[uid]
    wanted = sum(each <= since for each in kind.waiting.values())
    if not (known := len(kind.starts)):
        return 0.0
    seconds = max(now - kind.starts[-min(wanted, known)], 1.0)
    return seconds * max(wanted / known, 1.0)


def _range(kind: _Kind, scale: float, now: float) -> StartRange | str:
    if len(kind.probes) < MIN_PROBES or len(kind.starts) < MIN_STARTS or len(kind.times) < STALL:
        return "too few equal pods have waited and started in its queue"
    paused = now - max(kind.starts[-1], kind.busy)
    if paused > kind.starts[-1] - kind.times[0]:
        return f"no equal pod has started for {paused / 60:.0f} min, longer than {STALL} starts took before"
    if kind.wrong <= 0.0:
        return StartRange(0.0, inf)
    # Of equal ratios, those of pods that have started come first.
    ratios = sorted(
        ((now - each.at if each.ended is None else each.ended) / each.scale, not each.started) for each in kind.probes
    )
    earliest, waiting = None, 1.0
    for before, (ratio, unknown) in enumerate(ratios):
        if not unknown:
            waiting *= 1 - 1 / (len(ratios) - before)
            if earliest is None and 1 - waiting >= kind.wrong / 2:
                earliest = ratio * scale
            if 1 - waiting >= 1 - kind.wrong / 2:
                return StartRange(earliest or 0.0, ratio * scale)
    return StartRange(ratios[-1][0] * scale if earliest is None else earliest, inf)
