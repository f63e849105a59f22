"""Output of commands: tables as ``kubectl`` prints them, and indented JSON."""

from collections.abc import Iterator, Sequence

import msgspec
from rich.cells import cell_len

NONE = "<none>"
"""The text of an empty cell."""

Table = tuple[Sequence[str], Sequence[Sequence[str]]]
"""Head and rows."""


def indented_json(value: object) -> str:
    """Return a value as indented JSON."""
    return msgspec.json.format(msgspec.json.encode(value)).decode()


def yaml_text(value: object) -> str:
    """Return a value as YAML with sorted keys, as ``kubectl`` prints it."""
    import yaml

    return yaml.safe_dump(value, default_flow_style=False, allow_unicode=True)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table with columns padded with spaces; widths are counted in cells of a terminal."""
    lines = [head, *rows]
    return "\n".join(aligned(lines, widths_of(lines)))


def widths_of(lines: Sequence[Sequence[str]]) -> list[int]:
    """Return the width of each column."""
    return [max(cell_len(printable(line[column])) for line in lines) for column in range(len(lines[0]))]


def aligned(lines: Sequence[Sequence[str]], widths: Sequence[int]) -> Iterator[str]:
    """Yield lines with their columns padded to these widths."""
    for line in lines:
        texts = map(printable, line)
        cells = (text + " " * (width - cell_len(text)) for text, width in zip(texts, widths, strict=True))
        yield "   ".join(cells).rstrip()


def printable(text: str) -> str:
    """Return a text in which each control character is replaced: those of a user's object could change the terminal."""
    return (
        text
        if text.isprintable()
        else "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in text)
    )
