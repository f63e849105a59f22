"""Reports about one object: titled sections, as text, JSON or YAML."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from deviceshare_cli.output import Table, lines_text, structured, table


class Report(NamedTuple):
    """A report: the first lines, the sections with their lines (empty ones are omitted), and the same as data."""

    lines: Sequence[str]
    sections: Sequence[tuple[str, Sequence[str]]]
    data: Mapping[str, Any]

    @property
    def text(self) -> str:
        """The report as text."""
        head, *more = self.lines
        shown = [head, *(f"  {line}" for line in more)]
        for title, lines in self.sections:
            shown += ["", f"{title}:", *(f"  {line}" for line in lines)] if lines else []
        return lines_text(shown)


def print_report(report: Report, output: str) -> int:
    """Print a report as JSON or YAML if ``output`` is ``json`` or ``yaml``, else as text; return the exit status."""
    print(structured(report.data, output) or report.text)
    return 0


def table_lines(shown: Table) -> list[str]:
    """Return a table as lines, none if it has no rows."""
    head, rows = shown
    return table(head, rows).splitlines() if rows else []
