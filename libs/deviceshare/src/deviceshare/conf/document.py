"""From a text that holds a scheduler configuration to its parsed YAML: the file itself, or a ConfigMap around it."""

from typing import Any

import msgspec
import yaml

from deviceshare.errors import ConfigError

KEY = "volcano-scheduler.conf"
"""The key of the ConfigMap's data."""

_ELLIPSIS = "..."
_EXPECTED = f"actions and tiers of plugins, a list of plugins, or a ConfigMap with the key {KEY}"


def read_document(text: str, source: str, warnings: list[str]) -> tuple[dict[str, Any], bool]:
    """Return the configuration as a mapping with ``tiers``, and whether it was a bare list of plugins.

    A bare list of plugins, as the guides show excerpts, is one tier. Lines that are only ``...``, where a guide leaves
    something out, are dropped with a warning.

    Raises:
        ConfigError: for what is not YAML or has another shape.
    """
    document = _one_document(text, source, warnings)
    if isinstance(document, dict) and (document.get("kind") == "ConfigMap" or isinstance(document.get("data"), dict)):
        data = document.get("data")
        inner = data.get(KEY) if isinstance(data, dict) else None
        if not isinstance(inner, str):
            raise ConfigError(source, f"data[{KEY}]", as_text(inner), "the text of the configuration")
        source = f"{source} data[{KEY}]"
        document = _one_document(inner, source, warnings)
    if isinstance(document, list):
        return {"tiers": [{"plugins": document}]}, True
    if not isinstance(document, dict):
        raise ConfigError(source, "$", as_text(document), _EXPECTED)
    return {str(key): value for key, value in document.items()}, False


def _one_document(text: str, source: str, warnings: list[str]) -> Any:
    lines = text.split("\n")
    for number, line in enumerate(lines, start=1):
        if line.strip() == _ELLIPSIS:
            warnings.append(
                f"{source}: line {number}: '{_ELLIPSIS}' says that something is left out here: line dropped"
            )
            lines[number - 1] = ""
    try:
        documents = [document for document in yaml.safe_load_all("\n".join(lines)) if document is not None]
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line_number = mark.line + 1 if mark else 1
        shown = lines[line_number - 1] if line_number <= len(lines) else ""
        raise ConfigError(source, f"line {line_number}", shown.strip(), f"YAML ({error.problem})") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigError(source, "$", text[:120], f"YAML ({error})") from error
    holders = [document for document in documents if isinstance(document, dict) and document.get("kind") == "ConfigMap"]
    if len(documents) > 1 and len(holders) == 1:
        return holders[0]
    if len(documents) != 1:
        raise ConfigError(source, "$", text[:120].strip(), f"one document: {_EXPECTED}")
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
