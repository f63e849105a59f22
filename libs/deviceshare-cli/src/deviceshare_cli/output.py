"""Output of commands: tables as ``kubectl`` prints them, and indented JSON."""

from collections.abc import Sequence

import msgspec
from rich.cells import cell_len

from deviceshare_cli.notices import to_stderr

NONE = "<none>"
"""The text of an empty cell."""

Table = tuple[Sequence[str], Sequence[Sequence[str]]]
"""Head and rows."""


def indented_json(value: object) -> str:
    """Return a value as indented JSON."""
    return msgspec.json.format(msgspec.json.encode(value)).decode()


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table with columns padded with spaces; widths are counted in cells of a terminal."""
    lines = [head, *rows]
    widths = [max(cell_len(line[column]) for line in lines) for column in range(len(head))]
    shown = (
        "   ".join(text + " " * (width - cell_len(text)) for text, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )
    return "\n".join(shown)


def print_items(items: Sequence[object], shown: Table, namespace: str | None, output: str) -> None:
    """Print the result of ``get``: ``items`` as JSON if ``output`` is ``json``, else their table."""
    head, rows = shown
    if output == "json":
        print(indented_json({"items": items}))
    elif rows:
        print(table(head, rows))
    else:
        to_stderr("No resources found" + (f" in {namespace} namespace." if namespace else "."))
