"""The replay of sessions in ``deviceshare lab conformance``."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec
from deviceshare_cli.errors import CommandError

from deviceshare_lab.conformance.lines import decode_line, keys_of_first, read_lines
from deviceshare_lab.conformance.sessions.recorded import Session
from deviceshare_lab.conformance.sessions.replay import replay
from deviceshare_lab.conformance.sessions.report import SessionOutcome, SessionSummary
from deviceshare_lab.conformance.sessions.rules import RULES
from deviceshare_lab.conformance.sessions.unit_tests import UnitTest

_SESSION, _UNIT_TEST = msgspec.json.Decoder(Session), msgspec.json.Decoder(UnitTest)


def is_of_sessions(path: Path) -> bool:
    """Return whether a file has sessions or unit tests; otherwise it has cases of devices."""
    keys = keys_of_first(path)
    return "volcano" in keys or _is_of_unit_tests(keys)


def _is_of_unit_tests(keys: frozenset[str]) -> bool:
    return {"binds", "tiers"} <= keys


def summarize(files: Sequence[Path], *, as_volcano: bool) -> SessionSummary:
    """Replay the sessions of files; ``as_volcano`` disables the rules that have an argument.

    Raises:
        CommandError: a file, a line or a configuration is invalid.
    """
    off = [rule for rule in RULES if rule.argument] if as_volcano else []
    outcomes: list[SessionOutcome] = []
    out_of_reach: Counter[str] = Counter()
    for path in files:
        unit_tests = _is_of_unit_tests(keys_of_first(path))
        for number, line in read_lines(path):
            where = f"{path}: line {number}"
            if unit_tests:
                test = decode_line(line, _UNIT_TEST, where)
                try:
                    need, session = test.out_of_reach, test.session()
                except (LookupError, TypeError, AttributeError) as error:
                    raise CommandError(f"{where}: not a recorded unit test: {error!r}") from None
                if need:
                    out_of_reach[need] += 1
                    continue
            else:
                session = decode_line(line, _SESSION, where)
            outcomes.append(SessionOutcome(path, number, session, replay(session, off=off)))
    return SessionSummary(outcomes, dict(out_of_reach), as_volcano)
