"""The YAML loader: PyYAML's safe loader, restricted to values that later steps can process."""

from typing import Any

import yaml

YAML_ERRORS = (yaml.YAMLError, ValueError, LookupError, AttributeError, RecursionError)
"""Errors of PyYAML, and of values that do not match a tag such as ``!!float``."""
DEEPEST = 200
"""Levels of lists and mappings in a document."""
MAX_ALIASED = 100_000
"""Values that the aliases of a document may repeat."""


class YamlLoader(yaml.CSafeLoader):
    """Reads YAML.

    Errors with a position, because later steps fail on them: a number of more than 4300 digits, more than
    :data:`DEEPEST` levels, aliases that repeat more than :data:`MAX_ALIASED` values. Likewise a key that occurs twice
    in a mapping, as in kubectl's strict decoding.
    """

    def __init__(self, text: str, *, recursive: bool = True) -> None:
        """Take the text of all documents; ``recursive``: an anchor may contain its own alias."""
        super().__init__(text)
        self._unchecked: str | None = text
        self._recursive = recursive

    def check_node(self) -> bool:
        """Return whether there is another document."""
        text, self._unchecked = self._unchecked, None
        if text is not None:
            _check_depth(text)
        more: bool = super().check_node()
        return more

    def construct_document(self, node: yaml.Node | None) -> Any:
        """Return the value of a document."""
        assert node is not None  # after check_node
        _check_aliases(node, recursive=self._recursive)
        return super().construct_document(node)

    def construct_yaml_int(self, node: yaml.ScalarNode) -> int:
        """Return a whole number."""
        try:
            value: int = super().construct_yaml_int(node)
            str(value)
        except (ValueError, LookupError):
            expected = "not a whole number of at most 4300 digits"
            raise yaml.constructor.ConstructorError(None, None, expected, node.start_mark) from None
        return value


YamlLoader.add_constructor("tag:yaml.org,2002:int", YamlLoader.construct_yaml_int)


def _check_depth(text: str) -> None:
    """Raise an error if lists and mappings are nested too deeply: PyYAML's composer is recursive, without a limit."""
    # A level takes a bracket, or a column in one of the lines: most texts need no exact count.
    if text.count("[") + text.count("{") + max(map(len, text.split("\n"))) <= DEEPEST:
        return
    depth = 0
    for event in yaml.parse(text, yaml.CSafeLoader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > DEEPEST:
            raise yaml.constructor.ConstructorError(None, None, f"more than {DEEPEST} levels", event.start_mark)  # type: ignore[arg-type]  # as in the C parser


def _check_aliases(document: yaml.Node, *, recursive: bool) -> None:
    """Raise an error if aliases repeat too many values or, unless it is permitted, an anchor contains its alias."""
    sizes: dict[yaml.Node, int] = {}
    inner = _measure(document, sizes, set())
    if inner is not None and not recursive:
        raise yaml.constructor.ConstructorError(None, None, "an anchor contains its own alias", inner.start_mark)
    if sizes[document] - len(sizes) > MAX_ALIASED:
        problem = f"aliases repeat more than {MAX_ALIASED} values"
        raise yaml.constructor.ConstructorError(None, None, problem, document.start_mark)


def _check_keys(mapping: yaml.MappingNode) -> None:
    """Raise an error if a key occurs twice: one of the two values would be ignored."""
    seen: set[tuple[str, str]] = set()
    for key, _ in mapping.value:
        if isinstance(key, yaml.ScalarNode):
            if (key.tag, key.value) in seen:
                problem = f"the key {key.value[:100]!r} occurs twice"
                raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
            seen.add((key.tag, key.value))


def _measure(node: yaml.Node, sizes: dict[yaml.Node, int], around: set[yaml.Node]) -> yaml.Node | None:
    """Count the values of a node and of all nodes in it, with those that aliases repeat.

    Returns a node that contains its own alias, if there is one.
    """
    if node in around:
        return node
    if node in sizes:
        return None
    parts: list[yaml.Node] = []
    if isinstance(node, yaml.SequenceNode):
        parts = node.value
    elif isinstance(node, yaml.MappingNode):
        parts = [part for pair in node.value for part in pair]
        _check_keys(node)
    around.add(node)
    recursive = None
    for part in parts:
        recursive = _measure(part, sizes, around) or recursive
    around.discard(node)
    sizes[node] = 1 + sum(sizes.get(part, 1) for part in parts)
    return recursive
