"""The YAML loader: PyYAML's safe loader, restricted to numbers that Python can convert to text."""

import yaml

YAML_ERRORS = (yaml.YAMLError, ValueError, LookupError, AttributeError, RecursionError)
"""Errors of PyYAML, and of values that do not match a tag such as ``!!float``."""


class YamlLoader(yaml.CSafeLoader):
    """Reads YAML; a number of more than 4300 digits, which Python does not convert to text, is an error."""

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
