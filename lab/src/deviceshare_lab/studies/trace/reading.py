"""The files of a trace: ``openb_node_list_gpu_node.csv`` and ``openb_pod_list_WORKLOAD.csv`` or ``….csv.gz``.

The columns are those of Alibaba's cluster-trace-gpu-v2023.
"""

import csv
import gzip
import io
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from deviceshare_cli.errors import CommandError
from deviceshare_cli.simulate.options import parse_number

from deviceshare_lab.traces import CARD, LONGEST, Trace, TraceNode, TracePod

NODES = "openb_node_list_gpu_node.csv"
_PODS = "openb_pod_list_{}.csv"
MAX_CARDS = 64
_MAX_AMOUNT = 10**12


class CsvRow(NamedTuple):
    """One line of a CSV file, with what an error about it names."""

    file: Path
    number: int
    values: dict[str, str]

    def error(self, column: str, expected: str) -> CommandError:
        """Return the error for a value of this line."""
        return CommandError(f"{self.file}:{self.number}: {column}: {self.values[column]!r}: must be {expected}")

    def whole(self, column: str, least: int = 0, most: int = _MAX_AMOUNT) -> int:
        """Return a whole number. Raises CommandError."""
        text = self.values[column].strip()
        number = parse_number(text)
        if number is None or not least <= number <= most:
            limit = f" to {most}" if most != _MAX_AMOUNT else " or more"
            raise self.error(column, f"a whole number, {least}{limit}")
        return number

    def text(self, column: str) -> str:
        """Return a text that is not empty. Raises CommandError."""
        if not (text := self.values[column].strip()):
            raise self.error(column, "a text")
        return text


def workloads(directory: Path) -> list[str]:
    """Return the names of the workloads in a directory."""
    prefix, suffix = _PODS.split("{}")
    names = (file.name.removesuffix(".gz") for file in directory.glob(f"{prefix}*{suffix}*"))
    return sorted({name.removeprefix(prefix).removesuffix(suffix) for name in names if name.endswith(suffix)})


def read_trace(directory: Path, workload: str) -> Trace:
    """Return the nodes and one workload of a directory. Raises CommandError."""
    nodes = tuple(sorted(_nodes(directory / NODES), key=lambda node: node.name))
    _check_names([node.name for node in nodes], directory / NODES)
    file = directory / _PODS.format(workload)
    if not file.exists():
        packed = file.with_name(f"{file.name}.gz")
        if not packed.exists():
            known = ", ".join(workloads(directory)) or "none"
            raise CommandError(f"{file}[.gz]: no such file; workloads of {directory}: {known}")
        file = packed
    pods = tuple(_pods(file, {node.model for node in nodes}))
    _check_names([pod.name for pod in pods], file)
    return Trace(workload, nodes, pods)


def _nodes(file: Path) -> Iterator[TraceNode]:
    for row in _rows(file, ("sn", "cpu_milli", "memory_mib", "gpu", "model")):
        yield TraceNode(
            row.text("sn"),
            row.whole("cpu_milli"),
            row.whole("memory_mib"),
            row.whole("gpu", 1, MAX_CARDS),
            row.text("model"),
        )


def _pods(file: Path, models: set[str]) -> Iterator[TracePod]:
    wanted = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
    for row in _rows(file, wanted, ("gpu_spec", "creation_time", "deletion_time")):
        cards = row.whole("num_gpu", 0, MAX_CARDS)
        amount = 0
        spec = ""
        if cards:
            amount = min(row.whole("gpu_milli", 1), CARD)
            spec = row.values["gpu_spec"].strip()
            chosen = [part for part in spec.split("|") if part]
            if chosen and not models.intersection(chosen):
                raise row.error("gpu_spec", f"models of the nodes, joined by |: {', '.join(sorted(models))}")
        created = row.whole("creation_time", most=LONGEST) if row.values["creation_time"] else 0
        deleted = row.whole("deletion_time", most=LONGEST) if row.values["deletion_time"] else 0
        if row.values["creation_time"] and row.values["deletion_time"] and deleted < created:
            raise row.error("deletion_time", f"creation_time ({created}) or later")
        yield TracePod(
            row.text("name"), row.whole("cpu_milli"), row.whole("memory_mib"), cards, amount, spec, created, deleted
        )


def _rows(file: Path, wanted: Sequence[str], optional: Sequence[str] = ()) -> Iterator[CsvRow]:
    """Yield the lines of a CSV file with these columns; an optional column that is missing is ''."""
    reader = csv.reader(io.StringIO(read_text(file)))
    try:
        head = next(reader, [])
    except csv.Error as error:
        raise CommandError(f"{file}:1: {error}") from None
    if missing := [column for column in wanted if column not in head]:
        raise CommandError(f"{file}:1: no column {missing[0]}: the columns must include {', '.join(wanted)}")
    columns = {column: head.index(column) for column in (*wanted, *optional) if column in head}
    try:
        for cells in reader:
            if not cells:
                continue
            if len(cells) != len(head):
                raise CommandError(f"{file}:{reader.line_num}: {len(cells)} values: must be {len(head)}, as in line 1")
            found = dict.fromkeys(optional, "") | {column: cells[at] for column, at in columns.items()}
            yield CsvRow(file, reader.line_num, found)
    except csv.Error as error:
        raise CommandError(f"{file}:{reader.line_num}: {error}") from None


def read_text(file: Path) -> str:
    """Return the text of a file, unpacked if its name ends in ``.gz``. Raises CommandError."""
    try:
        raw = file.read_bytes()
        return (gzip.decompress(raw) if file.suffix == ".gz" else raw).decode()
    except OSError as error:
        raise CommandError(f"{file}: {error.strerror or error}") from None
    except (EOFError, UnicodeDecodeError, zlib.error) as error:
        raise CommandError(f"{file}: {error}") from None


def _check_names(names: Sequence[str], file: Path) -> None:
    """Raise CommandError for no names, and for a name that occurs twice."""
    if not names:
        raise CommandError(f"{file}: no lines: must have at least one after the head")
    name, count = Counter(names).most_common(1)[0]
    if count > 1:
        raise CommandError(f"{file}: {count} lines have the name {name!r}: names must be unique")
