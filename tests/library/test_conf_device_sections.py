"""Sections of a ``device-config.yaml`` that device families declare."""

import pytest
import yaml
from deviceshare.conf import (
    BUILT_IN,
    ConfField,
    DevicesConf,
    DeviceSection,
    add_device_section,
    parse_devices,
)
from deviceshare.families.vgpu.section import VgpuConf
from deviceshare.model import ConfigError
from support.families import restored_families


def parse(**sections: object) -> DevicesConf:
    return parse_devices(yaml.safe_dump(sections), "ConfigMap kube-system/devices")


class Acme(DeviceSection, frozen=True, kw_only=True):
    key, product = "acme", "Acme"
    resource: str = "acme.example/npu"

    @classmethod
    def read(cls, field: ConfField) -> "Acme":
        entry = field.section(("resourceName",))["resourceName"]
        if not entry.value:
            raise entry.error("the resource of Acme cards")
        return cls(resource=entry.value)

    def resources(self) -> tuple[tuple[str, str], ...]:
        return ((self.resource, self.key),)


def test_a_device_family_declares_a_section_of_its_own() -> None:
    with restored_families():
        add_device_section(Acme)
        assert parse(acme={"resourceName": "a.example/n"}).section(Acme) == Acme(resource="a.example/n")
        assert parse().section(Acme) == BUILT_IN.section(Acme) == Acme()
        with pytest.raises(ConfigError, match=r"acme\.resourceName.*the resource of Acme cards"):
            parse(acme={"resourceName": ""})
        with pytest.raises(ConfigError, match="each resource once, not in nvidia and acme"):
            parse(acme={"resourceName": VgpuConf().number}, nvidia={})
    (warning,) = parse(acme={}).warnings
    assert "acme" in warning


def test_no_section_takes_the_place_of_one_of_another_family() -> None:
    class Taken(Acme):
        key = "nvidia"

    with restored_families():
        with pytest.raises(ValueError, match=r"the section nvidia of .*Taken is that of .*VgpuConf already"):
            add_device_section(Taken)
        assert BUILT_IN.section(VgpuConf) == VgpuConf()
