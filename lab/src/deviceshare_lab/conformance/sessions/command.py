"""The replay of sessions in ``deviceshare lab conformance``."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from deviceshare_lab.conformance.lines import decoded, keys_of_first
from deviceshare_lab.conformance.outcomes import Outcome
from deviceshare_lab.conformance.sessions.recorded import Session
from deviceshare_lab.conformance.sessions.replay import Verdict, replay
from deviceshare_lab.conformance.sessions.report import SessionSummary
from deviceshare_lab.conformance.sessions.rules import RULES
from deviceshare_lab.conformance.sessions.unit_tests import UnitTest, session_of

_SESSION, _UNIT_TEST = msgspec.json.Decoder(Session), msgspec.json.Decoder(UnitTest)


def is_of_sessions(keys: frozenset[str]) -> bool:
    """Return whether a file whose first line has these keys has sessions or unit tests."""
    return ("volcano" in keys and "best" not in keys) or _is_of_unit_tests(keys)


def _is_of_unit_tests(keys: frozenset[str]) -> bool:
    return {"binds", "tiers"} <= keys and "evicts" not in keys


def summarize(files: Sequence[Path], *, as_volcano: bool) -> SessionSummary:
    """Replay the sessions of files; ``as_volcano`` disables the rules that have an argument.

    Raises:
        CommandError: a file, a line or a configuration is invalid.
    """
    off = [rule for rule in RULES if rule.argument] if as_volcano else []
    outcomes: list[Outcome[Session, Verdict]] = []
    out_of_reach: Counter[str] = Counter()
    for path, number, session in _sessions(files, out_of_reach):
        outcomes.append(Outcome(path, number, session, replay(session, off=off)))
    return SessionSummary(outcomes, dict(out_of_reach), as_volcano)


def _sessions(files: Sequence[Path], out_of_reach: Counter[str]) -> Iterator[tuple[Path, int, Session]]:
    """Yield the sessions of files, also those of unit tests, with their lines; count the others."""
    for path in files:
        if not _is_of_unit_tests(keys_of_first(path)):
            yield from ((path, number, session) for number, _, session in decoded(path, _SESSION))
            continue
        for number, where, test in decoded(path, _UNIT_TEST):
            session = session_of(test, where, out_of_reach)
            if session is not None:
                yield path, number, session
