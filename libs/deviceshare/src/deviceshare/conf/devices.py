"""Reading of ``device-config.yaml``, which Volcano, deviceshare and the device plugins share.

Keys for the plugins only are checked and have no effect here, unknown keys are warnings, and invalid values are errors.
"""

from collections.abc import Iterable

from deviceshare.conf.device_sections import DevicesConf, DeviceSection, declared_sections
from deviceshare.conf.reading import ConfField, read_root

KEY = "device-config.yaml"
"""The key of the ConfigMap's data."""


def parse_devices(text: str, source: str) -> DevicesConf:
    """Return the configuration of a ``device-config.yaml``.

    Args:
        text: the file, or a ConfigMap manifest with the file, possibly among other documents.
        source: the source of the text, for messages.

    Raises:
        ConfigError: names the source with line and column, the field, its value and the expected value.
    """
    kinds = declared_sections()
    keys = [kind.key for kind in kinds]
    expected = f"the sections {', '.join(keys)}, or a ConfigMap with the key {KEY}"
    root = read_root(text, source, KEY, expected)
    root.mapping(expected)
    fields = root.section(keys)
    sections = [kind() if fields[kind.key].value is None else kind.read(fields[kind.key]) for kind in kinds]
    _check_resources(root, sections)
    return DevicesConf(
        sections={type(section): section for section in sections},
        warnings=tuple(warning.text for warning in root.source.warnings),
    )


def _check_resources(root: ConfField, sections: Iterable[DeviceSection]) -> None:
    """Check that each resource is named once; sections that give way have what no other one names."""
    owners: dict[str, tuple[str, DeviceSection]] = {}
    for section in sorted(sections, key=lambda section: _gives_way(root, section)):
        for name, owner in section.resources():
            if not name or name not in owners:
                owners[name] = owner, section
                continue
            other, named = owners[name]
            if not _gives_way(root, section):
                raise root.holding(name).error(f"each resource once, not in {other} and {owner}")
            root[named.key].warn(
                f"{name} is a resource of {named.product} here: "
                f"for nodes of {section.product} name the section {section.key}",
                named.key,
            )
            break


def _gives_way(root: ConfField, section: DeviceSection) -> bool:
    return section.gives_way and root[section.key].value is None
