"""Output of commands: tables as ``kubectl`` prints them, lines, indented JSON and YAML; and the streams of a process.

Texts of users and device plugins are shown by :func:`deviceshare.model.visible`: line by line where a text is made of
lines, since no value may add one, and once more for all that goes to a stream.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, TextIO

import msgspec
from deviceshare.model import visible, visible_lines
from rich.cells import cell_len, set_cell_size

if TYPE_CHECKING:
    import yaml

GAP = "   "
"""Between two columns."""
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

    return visible_lines(yaml.dump(value, Dumper=_dumper(), default_flow_style=False, allow_unicode=True))


def structured(value: object, output: str) -> str:
    """Return a value as the option ``-o json`` or ``-o yaml`` prints it, '' for another option."""
    if output == "yaml":
        return yaml_text(msgspec.to_builtins(value)).removesuffix("\n")
    return indented_json(value) if output == "json" else ""


@cache
def _dumper() -> "type[yaml.SafeDumper]":
    """Return the class that writes YAML; not one of the module, which every command imports."""
    import yaml

    class Dumper(yaml.SafeDumper):
        """Writes texts with characters that are not printable in double quotes, where escapes have a meaning."""

    def text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
        style = None if visible_lines(value) == value else '"'
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)

    Dumper.add_representer(str, text)
    return Dumper


def lines_text(lines: Iterable[str]) -> str:
    """Return lines as a text; none of them adds another one."""
    return "\n".join(map(visible, lines))


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table with columns padded with spaces; widths are counted in cells of a terminal."""
    lines = [head, *rows]
    return "\n".join(aligned(lines, widths_of(lines)))


def widths_of(lines: Sequence[Sequence[str]]) -> list[int]:
    """Return the width of each column."""
    return [max(cell_len(visible(line[column])) for line in lines) for column in range(len(lines[0]))]


def aligned(lines: Sequence[Sequence[str]], widths: Sequence[int]) -> Iterator[str]:
    """Yield lines with their columns padded to these widths."""
    for line in lines:
        texts = map(visible, line)
        cells = (text + " " * (width - cell_len(text)) for text, width in zip(texts, widths, strict=True))
        yield GAP.join(cells).rstrip()


def shrunk(widths: Sequence[int], least: Sequence[int], room: int) -> list[int]:
    """Return widths of columns that fit a terminal with ``room`` cells: the widest ones give, down to ``least``."""
    found = list(widths)
    excess = sum(found) + len(GAP) * (len(found) - 1) - room
    while excess > 0:
        given = [(width, at) for at, width in enumerate(found) if width > least[at]]
        if not given:
            break
        widest, at = max(given)
        next_widest = max((width for width, other in given if other != at), default=0)
        found[at] -= (by := max(1, min(excess, widest - max(next_widest, least[at]))))
        excess -= by
    return found


def cut(text: str, width: int) -> str:
    """Return a text with at most so many cells; ``…`` ends one that was longer."""
    text = visible(text)
    return text if cell_len(text) <= width else set_cell_size(text, max(width - 1, 0)).rstrip() + "…"


class VisibleStream:
    """A text stream of a process that shows characters which are not printable as escapes.

    Own sequences for the terminal go around it: rich's consoles, which write them, use :attr:`rich_proxied_file`. They
    look through one proxy only, so that a live display must not redirect the stream, which is another one.
    """

    def __init__(self, stream: TextIO) -> None:
        self.rich_proxied_file = stream

    def write(self, text: str) -> int:
        """Write a text."""
        return self.rich_proxied_file.write(visible_lines(text))

    def __getattr__(self, name: str) -> Any:
        """Return what else the stream has."""
        return getattr(self.rich_proxied_file, name)
