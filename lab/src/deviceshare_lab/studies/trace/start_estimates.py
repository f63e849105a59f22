"""When waiting pods start: a range from how long pods of the same kind waited before. Pure.

The scale of a prediction is the time in which as many pods of the kind started last as are before the pod. At regular
times one waiting pod of each kind is *probed*: how much of this scale it waited from then on is known when it starts.
The range of a pod is its scale times quantiles of these ratios. Pods that have not started yet count as well, by the
estimator of Kaplan and Meier (1958): otherwise only short waits would be known of late. Which quantiles is adapted with
each probe that ends, so that :data:`COVERAGE` of the ranges are right in the long run whatever the pods do (adaptive
conformal inference, Gibbs and Candès 2021).
"""

from collections import OrderedDict, deque
from collections.abc import Hashable
from itertools import islice
from math import inf
from typing import NamedTuple

import msgspec

COVERAGE = 0.8
"""The share of ranges within which a pod starts."""
INTERVAL = 240.0
"""Seconds between two probes of a kind."""
_PROBES = 1000
"""Probes of a kind that count: of almost three days in which pods waited."""
_ENOUGH_PROBES, _ENOUGH_STARTS = 30, 10
"""With fewer probes, or fewer of them whose pod has started, there is no range."""
_MAX_STARTS = 20_000
_MAX_KINDS = 32
_STEP = 0.02
"""How much one probe adapts the share of ranges that may be wrong."""
_GOLDEN = 0.618033988749895
"""Multiples of the golden ratio, without their whole parts, are spread evenly: so are the places of the probed pods."""
_SHORT = 5.0
"""Seconds: a pod that waited less has not waited for others."""


class StartRange(NamedTuple):
    """Seconds from now within which a pod starts; ``latest`` is infinite if too few pods that waited longer started."""

    earliest: float
    latest: float


class _Probe(msgspec.Struct):
    """A waiting pod at one time; ``ended``: how long it waited from then on. Without ``started`` at least so long."""

    at: float
    scale: float
    expected: StartRange | None
    ended: float | None = None
    started: bool = False


class _Kind:
    def __init__(self) -> None:
        self.waiting: dict[str, float] = {}
        """Since when pods wait, by uid."""
        self.starts: deque[float] = deque(maxlen=_MAX_STARTS)
        self.probes: deque[_Probe] = deque(maxlen=_PROBES)
        self.open: dict[str, list[_Probe]] = {}
        """Probes that have not ended, by uid of the pod."""
        self.wrong = 1 - COVERAGE
        """The share of ranges that may be wrong, adapted."""


class StartEstimates:
    """Follows waiting pods by kind. Times are seconds of any clock; a kind is any value, such as queue and cards."""

    def __init__(self) -> None:
        self._kinds: OrderedDict[Hashable, _Kind] = OrderedDict()
        self._kind_of: dict[str, _Kind] = {}
        self._turn = 0.0
        self._due = -inf

    def __contains__(self, uid: str) -> bool:
        """Return whether a pod is followed."""
        return uid in self._kind_of

    def wait(self, uid: str, kind: Hashable, since: float) -> None:
        """A pod waits ``since`` a time. It is not followed if pods of too many kinds wait."""
        found = self._kinds.get(kind)
        if found is None:
            if len(self._kinds) >= _MAX_KINDS:
                idle = next((name for name, each in self._kinds.items() if not each.waiting), None)
                if idle is None:
                    return
                del self._kinds[idle]
            found = self._kinds[kind] = _Kind()
        self._kinds.move_to_end(kind)
        self._kind_of[uid] = found
        found.waiting[uid] = since

    def end(self, uid: str, now: float, *, started: bool) -> None:
        """A pod waits no more: it has started, or is gone."""
        if (kind := self._kind_of.pop(uid, None)) is None:
            return
        if now - kind.waiting.pop(uid) >= _SHORT and started:
            kind.starts.append(now)
        for probe in kind.open.pop(uid, ()):
            probe.ended, probe.started = now - probe.at, started
            if started and (expected := probe.expected) is not None:
                right = expected.earliest <= probe.ended <= expected.latest
                kind.wrong += _STEP * (1 - COVERAGE - (not right))

    def probe(self, now: float) -> None:
        """Probe a waiting pod of each kind, if it is time."""
        if now < self._due:
            return
        self._due = now + INTERVAL
        self._turn = (self._turn + _GOLDEN) % 1.0
        for kind in self._kinds.values():
            if not kind.waiting:
                continue
            uid = next(islice(kind.waiting, int(self._turn * len(kind.waiting)), None))
            if (scale := _scale(kind, uid, now)) > 0.0:
                probe = _Probe(now, scale, _expected(kind, scale, now))
                if len(kind.probes) == _PROBES:
                    _forget(kind, kind.probes[0])
                kind.probes.append(probe)
                kind.open.setdefault(uid, []).append(probe)

    def expected(self, uid: str, now: float) -> StartRange | None:
        """Return when a waiting pod starts, None if too little is known of pods of its kind."""
        kind = self._kind_of.get(uid)
        return None if kind is None else _expected(kind, _scale(kind, uid, now), now)


def _forget(kind: _Kind, oldest: _Probe) -> None:
    """Remove the oldest probe from those that have not ended."""
    if oldest.ended is None:
        uid = next(uid for uid, probes in kind.open.items() if any(each is oldest for each in probes))
        kind.open[uid] = [each for each in kind.open[uid] if each is not oldest]


def _scale(kind: _Kind, uid: str, now: float) -> float:
    """Return the time in which as many pods started last as are before this one, and itself; 0 if none is known."""
    since = kind.waiting[uid]
    wanted = sum(each <= since for each in kind.waiting.values())
    if not (known := len(kind.starts)):
        return 0.0
    seconds = max(now - kind.starts[-min(wanted, known)], 1.0)
    return seconds * max(wanted / known, 1.0)


def _expected(kind: _Kind, scale: float, now: float) -> StartRange | None:
    started = sum(each.started for each in kind.probes)
    if scale <= 0.0 or len(kind.probes) < _ENOUGH_PROBES or started < _ENOUGH_STARTS:
        return None
    if kind.wrong <= 0.0:
        return StartRange(0.0, inf)
    # Of equal ratios, those of pods that have started come first.
    ratios = sorted(
        ((now - each.at if each.ended is None else each.ended) / each.scale, not each.started) for each in kind.probes
    )
    lowest, highest = min(kind.wrong, 1.0) / 2, 1 - min(kind.wrong, 1.0) / 2
    earliest, waiting = None, 1.0
    for before, (ratio, unknown) in enumerate(ratios):
        if not unknown:
            waiting *= 1 - 1 / (len(ratios) - before)
            if earliest is None and 1 - waiting >= lowest:
                earliest = ratio * scale
            if 1 - waiting >= highest:
                return StartRange(earliest or 0.0, ratio * scale)
    return StartRange(ratios[-1][0] * scale if earliest is None else earliest, inf)
