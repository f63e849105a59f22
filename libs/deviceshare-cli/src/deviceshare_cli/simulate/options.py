"""Options that several commands of ``deviceshare simulate`` have: lists of names, and seeds."""

from collections.abc import Sequence

from deviceshare_cli.errors import CommandError

MAX_SEEDS = 1000
_MAX_DIGITS = 15


def parse_number(text: str) -> int | None:
    """Return the whole number that a text is, None for another text or more than 15 digits."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS else None


def parse_names(text: str, known: Sequence[str], option: str) -> tuple[str, ...]:
    """Return the names of a list, ``all`` for all that are known. Raises CommandError."""
    names = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if names == ("all",):
        return tuple(known)
    if not names:
        raise CommandError(f"{option}: {text!r}: must be names, joined by commas: {', '.join(known)}")
    for name in names:
        if name not in known:
            raise CommandError(f"{option}: {name!r}: must be one of {', '.join(known)}, or all")
    return names


def parse_seeds(text: str) -> tuple[int, ...]:
    """Return the seeds of ``42..51``, ``42`` or ``42,44,50..51``. Raises CommandError."""
    found: dict[int, None] = {}
    for part in text.split(","):
        begin, _, end = part.strip().partition("..")
        first, last = parse_number(begin), parse_number(end or begin)
        if first is None or last is None or first > last:
            raise CommandError(f"--seeds: {part!r}: must be a whole number or a range such as 42..51")
        if last - first + len(found) >= MAX_SEEDS:
            raise CommandError(f"--seeds: {text!r}: must be at most {MAX_SEEDS} seeds")
        found |= dict.fromkeys(range(first, last + 1))
    return tuple(found)
