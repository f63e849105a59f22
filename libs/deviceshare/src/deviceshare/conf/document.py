"""From a text that holds a configuration to its parsed YAML: the file itself, or a ConfigMap around it."""

from typing import Any

import msgspec
import yaml

from deviceshare.model import ConfigError

YAML_ERRORS = (yaml.YAMLError, ValueError, LookupError, AttributeError, RecursionError)
"""What PyYAML raises: its own errors, and those of values that do not suit a tag such as ``!!float``."""

_ELLIPSIS = "..."


class YamlLoader(yaml.CSafeLoader):
    """Reads YAML; a number of thousands of digits, which Python does not convert to text, is an error."""

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


def read_document(text: str, source: str, key: str, expected: str, warnings: list[str]) -> Any:
    """Return the parsed YAML of a configuration.

    Args:
        text: the configuration itself, or a ConfigMap manifest, alone or among others, that holds it.
        source: where it comes from, for messages.
        key: the key of the ConfigMap's data.
        expected: what the text should be, for messages.
        warnings: grows. Lines that are only ``...``, where a guide leaves something out, are dropped with a warning.

    Raises:
        ConfigError: for what is not YAML, is not one document, or is a ConfigMap without the key.
    """
    document = _one_document(text, source, key, expected, warnings)
    if not _is_config_map(document):
        return document
    data = document.get("data")
    inner = data.get(key) if isinstance(data, dict) else None
    if not isinstance(inner, str):
        raise ConfigError(source, f"data[{key}]", as_text(inner), "the text of the configuration")
    return _one_document(inner, f"{source} data[{key}]", key, expected, warnings)


def _is_config_map(document: Any) -> bool:
    return isinstance(document, dict) and (
        document.get("kind") == "ConfigMap" or isinstance(document.get("data"), dict)
    )


def _one_document(text: str, source: str, key: str, expected: str, warnings: list[str]) -> Any:
    """Parse the text; of several documents the one ConfigMap counts that there is, or that has the key."""
    lines = text.split("\n")
    for number, line in enumerate(lines, start=1):
        if line.strip() == _ELLIPSIS:
            warnings.append(
                f"{source}: line {number}: '{_ELLIPSIS}' says that something is left out here: line dropped"
            )
            lines[number - 1] = ""
    try:
        documents = [document for document in yaml.load_all("\n".join(lines), YamlLoader) if document is not None]
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line_number = mark.line + 1 if mark else 1
        shown = lines[line_number - 1] if line_number <= len(lines) else ""
        raise ConfigError(source, f"line {line_number}", shown.strip(), f"YAML ({error.problem})") from error
    except YAML_ERRORS as error:
        raise ConfigError(source, "$", text[:120], f"YAML ({error})") from error
    if len(documents) > 1:
        maps = [document for document in documents if _is_config_map(document)]
        documents = [each for each in maps if isinstance(each.get("data"), dict) and key in each["data"]] or maps
    if len(documents) != 1:
        raise ConfigError(source, "$", text[:120].strip(), f"one document: {expected}")
    return documents[0]


def as_text(value: Any) -> str:
    """Return a YAML value as users would write it on one line: words as they are, structures as JSON."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    try:
        return msgspec.json.encode(value, enc_hook=str).decode()
    except (TypeError, ValueError, OverflowError, RecursionError):
        return str(value)  # keys that are no names, numbers beyond 64 bits, aliases to themselves
