"""Tables as ``kubectl`` prints them: columns padded with spaces, nothing cut off."""

from collections.abc import Sequence

from rich.cells import cell_len

NONE = "<none>"
"""In a cell of which there is nothing to say."""


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table; widths are counted in cells of a terminal."""
    lines = [head, *rows]
    widths = [max(cell_len(line[column]) for line in lines) for column in range(len(head))]
    shown = (
        "   ".join(text + " " * (width - cell_len(text)) for text, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )
    return "\n".join(shown)
