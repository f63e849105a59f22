"""Reading manifests: files of YAML and JSON, or directories of them, into objects with their origin.

A malformed file, or a document that is not a Kubernetes object, is one problem and does not affect the others.
"""

from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from deviceshare.conf import YAML_ERRORS, Origin, YamlLoader, YamlText
from deviceshare.model import Problem
from deviceshare_cluster.interface import Object

from deviceshare_localcluster.kinds import order_of

SUFFIXES = (".yaml", ".yml", ".json")


class Manifest(NamedTuple):
    """An object and its origin."""

    object: Object
    origin: Origin

    def located(self, field: str, message: str) -> str:
        """Return a message about a field with its position: ``File jobs.yaml, line 12, column 10: message``."""
        return f"{self.origin.locate(field)}: {message}"


class Manifests(NamedTuple):
    """The objects in load order, and the problems."""

    manifests: list[Manifest]
    problems: list[Problem]


def read_manifests(path: Path) -> Manifests:
    """Read a file, or all manifests under a directory, in load order: referenced kinds first.

    Raises FileNotFoundError if the path does not exist.
    """
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such file or directory")
    files = [path]
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.suffix in SUFFIXES and file.is_file())
    read = Manifests([], [])
    for file in files:
        shown = str(file.relative_to(path)) if path.is_dir() else str(file)
        try:
            text = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            read.problems.append(Problem(f"File {shown}", "content", str(error), "a readable file of UTF-8 text"))
            continue
        parse_manifests(text, shown, read)
    read.manifests.sort(key=lambda one: order_of(one.object))
    return read


def parse_manifests(text: str, name: str, into: Manifests | None = None) -> Manifests:
    """Read the documents of one text, and the items of Lists and arrays; ``name`` is the file's name, for messages."""
    read = into if into is not None else Manifests([], [])
    loader, origin = YamlLoader(text, recursive=False), Origin(f"File {name}", YamlText(text))
    try:
        for document in count():
            if not loader.check_node():
                break
            _take(loader.construct_document(loader.get_node()), origin._replace(document=document), read)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}" if mark else "content"
        error_text = ": ".join(part for part in (error.context, error.problem) if part)
        read.problems.append(Problem(f"File {name}", place, error_text, "YAML or JSON that parses"))
    except YAML_ERRORS as error:
        error_text = " ".join(str(error).split())
        read.problems.append(Problem(f"File {name}", "content", error_text, "YAML or JSON that parses"))
    finally:
        loader.dispose()
    return read


def _take(document: Any, origin: Origin, read: Manifests) -> None:
    """Add one document, or each item of a List or of an array."""
    if document is None:
        return
    if isinstance(document, list):
        for number, item in enumerate(document):
            _take(item, origin.part(f"[{number}]"), read)
        return
    expected = "an object with apiVersion and kind"
    if not isinstance(document, dict):
        read.problems.append(Problem(origin.locate(""), "document", f"a {type(document).__name__}", expected))
        return
    kind, version = document.get("kind"), document.get("apiVersion")
    if not isinstance(kind, str) or not isinstance(version, str):
        field, value = ("apiVersion", version) if isinstance(kind, str) else ("kind", kind)
        shown = "nothing" if value is None else str(value)
        read.problems.append(Problem(origin.locate(field), field, shown, expected))
        return
    items = document.get("items")
    if kind.endswith("List") and isinstance(items, list):
        for number, item in enumerate(items):
            _take(item, origin.part(f"items[{number}]"), read)
        return
    read.manifests.append(Manifest(document, origin))
