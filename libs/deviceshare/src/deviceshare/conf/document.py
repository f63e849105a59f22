"""Parsing of configuration texts: the file itself, or a ConfigMap manifest with the file."""

from typing import Any

import yaml

from deviceshare.conf.positions import Origin, Position, YamlText
from deviceshare.conf.yaml_loader import YAML_ERRORS, YamlLoader
from deviceshare.model import ConfigError, FieldWarning, as_text

_ELLIPSIS = "..."


def read_document(text: str, source: str, key: str, expected: str, warnings: list[FieldWarning]) -> tuple[Any, Origin]:
    """Return the parsed YAML of a configuration, and the origin of its fields.

    Args:
        text: the configuration, or a ConfigMap manifest with the configuration, possibly among other documents.
        source: the source of the text, for messages.
        key: the key of the ConfigMap's data.
        expected: a description of valid texts, for messages.
        warnings: warnings are appended. Lines ``...``, by which guides mark omissions, are dropped with a warning.

    Raises:
        ConfigError: the text is not YAML, is not one document, or is a ConfigMap without the key.
    """
    document, origin = _one_document(Origin(source, YamlText(text)), key, expected, warnings)
    if not _is_config_map(document):
        return document, origin
    data, path = document.get("data"), f"data[{key}]"
    inner = data.get(key) if isinstance(data, dict) else None
    if not isinstance(inner, str):
        raise ConfigError(origin.locate(path), path, as_text(inner), "the text of the configuration")
    embedded = Origin(f"{source} {path}", YamlText(inner), around=origin._replace(path=path))
    return _one_document(embedded, key, expected, warnings)


def _is_config_map(document: Any) -> bool:
    return isinstance(document, dict) and (
        document.get("kind") == "ConfigMap" or isinstance(document.get("data"), dict)
    )


def _one_document(origin: Origin, key: str, expected: str, warnings: list[FieldWarning]) -> tuple[Any, Origin]:
    """Parse a text; of several documents, use the only ConfigMap, or the only one with the key."""
    text = origin.text.text
    lines = text.split("\n")
    for number, line in enumerate(lines, start=1):
        if line.strip() == _ELLIPSIS:
            name, position = origin.at(Position(number, 1))
            message = f"line {position.line}: '{_ELLIPSIS}' marks an omission: line dropped"
            warnings.append(FieldWarning("$", f"{name}: {message}"))
            lines[number - 1] = ""
    origin = origin._replace(text=YamlText("\n".join(lines)))
    try:
        loaded = enumerate(yaml.load_all(origin.text.text, YamlLoader))
        documents = [(number, document) for number, document in loaded if document is not None]
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        inner = Position(mark.line + 1, mark.column + 1) if mark else Position(1, 1)
        shown = lines[inner.line - 1] if inner.line <= len(lines) else ""
        name, position = origin.at(inner)
        raise ConfigError(name, f"line {position.line}", shown.strip(), f"YAML ({error.problem})") from error
    except YAML_ERRORS as error:
        raise ConfigError(origin.name, "$", text[:120], f"YAML ({error})") from error
    if len(documents) > 1:
        maps = [each for each in documents if _is_config_map(each[1])]
        documents = [each for each in maps if isinstance(each[1].get("data"), dict) and key in each[1]["data"]] or maps
    if len(documents) != 1:
        raise ConfigError(origin.name, "$", text[:120].strip(), f"one document: {expected}")
    number, document = documents[0]
    return document, origin._replace(document=number)
