"""Lines and columns of the fields of YAML text, for errors and warnings.

Parsed values do not carry positions: the text is parsed again, into YAML nodes, when the first position is needed.
"""

import re
from collections import deque
from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple

import yaml

from deviceshare.conf.yaml_loader import YAML_ERRORS, YamlLoader

_INDEX = re.compile(r"\[([0-9]{1,9})\]")


class Position(NamedTuple):
    """A place in a text, both numbers counted from 1."""

    line: int
    column: int

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}"


class YamlText:
    """A text of valid YAML documents."""

    def __init__(self, text: str) -> None:
        self.text = text

    def position(self, document: int, path: str, key: str = "") -> Position | None:
        """Return the position of a value in a document, counted from 0, or of a key of the mapping at ``path``.

        An absent field has the position of the innermost mapping or list around it that is present.
        """
        found = self._innermost(document, path)
        if found is not None and key:
            found = next((name for name, _, _ in self._entries(found, f"[{key}]")), found)
        return Position(found.start_mark.line + 1, found.start_mark.column + 1) if found is not None else None

    def block_scalar(self, document: int, path: str) -> Position | None:
        """Return the position of the first character of a non-empty literal block scalar (``|``)."""
        found = self._innermost(document, path)
        if not isinstance(found, yaml.ScalarNode) or found.style != "|":
            return None
        # The scalar starts after the line of its indicator. A blank first line has no indentation of its own.
        first, line = found.value.split("\n", 1)[0], found.start_mark.line + 1
        lines = self.text.split("\n")
        outer = lines[line].rstrip("\r") if line < len(lines) else ""
        if not first or not outer.endswith(first) or outer.removesuffix(first).strip(" "):
            return None
        return Position(line + 1, len(outer) - len(first) + 1)

    @cached_property
    def _documents(self) -> tuple[YamlLoader, list[yaml.Node]]:
        loader = YamlLoader(self.text)
        nodes: list[yaml.Node] = []
        try:
            while loader.check_node():
                node: Any = loader.get_node()
                nodes.append(node)
        except YAML_ERRORS:  # a later document: those before it have positions
            pass
        return loader, nodes

    def _innermost(self, document: int, path: str) -> yaml.Node | None:
        return deque(self._nodes(document, path), maxlen=1).pop() if document < len(self._documents[1]) else None

    def _nodes(self, document: int, path: str) -> Iterator[yaml.Node]:
        """Yield the nodes along a path as far as they are present, the document's first."""
        node, rest = self._documents[1][document], path.removeprefix("$")
        rest = rest if rest.startswith("[") else f".{rest}"
        while True:
            yield node
            found = next(self._entries(node, rest), None)
            if found is None:
                return
            _, node, rest = found

    def _entries(self, node: yaml.Node, path: str) -> Iterator[tuple[yaml.Node, yaml.Node, str]]:
        """Yield key, value and remaining path for the parts of a node that a path may lead to."""
        if isinstance(node, yaml.SequenceNode) and (index := _INDEX.match(path)) and int(index[1]) < len(node.value):
            part = node.value[int(index[1])]
            yield part, part, path[index.end() :]
        elif isinstance(node, yaml.MappingNode):
            self._documents[0].flatten_mapping(node)  # merge keys (<<)
            for key, value in reversed(node.value):  # of equal keys the last counts
                for step in (f".{key.value}", f"[{key.value}]") if isinstance(key, yaml.ScalarNode) else ():
                    if path.startswith(step) and path[len(step) : len(step) + 1] in ("", ".", "["):
                        yield key, value, path[len(step) :]


class Origin(NamedTuple):
    """The origin of an object, for messages.

    ``name`` is the name of the text, such as ``File jobs.yaml``; ``path`` is the path of the object in the document.
    ``around`` is the origin of the scalar that contains the text, if the text is a value in another text.
    """

    name: str
    text: YamlText
    document: int = 0
    path: str = ""
    around: "Origin | None" = None

    def part(self, path: str) -> "Origin":
        """Return the origin of a part of the object."""
        inner = path.removeprefix("$")
        dot = "." if self.path and inner and not inner.startswith("[") else ""
        return self._replace(path=f"{self.path}{dot}{inner}")

    def locate(self, path: str, key: str = "") -> str:
        """Return the name with the position of a field of the object, or of a key of the mapping there."""
        position = self.text.position(self.document, self.part(path).path, key)
        if position is None:
            return self.name
        name, position = self.at(position)
        return f"{name}, {position}"

    def at(self, position: Position) -> tuple[str, Position]:
        """Return the name of the outermost text in which a position of this text is known, and the position there."""
        if self.around is not None:
            scalar = self.around.text.block_scalar(self.around.document, self.around.path)
            if scalar is not None:
                outer = Position(scalar.line + position.line - 1, scalar.column + position.column - 1)
                return self.around.at(outer)
        return self.name, position
