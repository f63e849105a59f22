"""docs/configuration.md is right about the configuration: arguments, keys, defaults, the example."""

import re
from pathlib import Path

import pytest
from deviceshare.conf import SchedulerConf, known, parse_conf, parse_devices
from deviceshare.conf import node_plugins as nodes
from deviceshare.conf.known import family_flags
from deviceshare.families.hami_gpu.section import HAMI_KEYS, HamiConf
from deviceshare.families.hami_vnpu.section import CHIP_KEYS, VnpuConf
from deviceshare.families.vgpu.section import PLUGIN_KEYS, VGPU_KEYS, VgpuConf

PAGE = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text()


def rows(heading: str) -> dict[str, list[str]]:
    """Return the further cells of each row of the tables under a heading, by each name in its first cell.

    Where two tables have a name the first counts.
    """
    found = re.search(rf"^## {re.escape(heading)}\n(.*?)(?=^##)", PAGE, re.DOTALL | re.MULTILINE)
    assert found is not None, heading
    table: dict[str, list[str]] = {}
    for row in found[1].splitlines():
        if row.startswith("| `"):
            first, *rest = row.strip("|").split(" | ")
            for name in re.findall(r"`([^`]+)`", first):
                table.setdefault(name, [cell.strip() for cell in rest])
    return table


def test_every_argument_is_explained_with_its_default():
    table = rows("volcano-scheduler.conf")
    assert set(table) == {*family_flags(), *known.ARGUMENTS}
    conf = SchedulerConf()
    defaults = {name: cells[1].strip("`") for name, cells in table.items()}
    assert {defaults[flag] for flag in family_flags()} == {"false"}
    assert (defaults[known.DEVICES_NAMESPACE], defaults[known.DEVICES_NAME]) == conf.geometries_config_map
    assert defaults[known.MIG_GEOMETRY] == conf.mig_geometry
    assert defaults[known.WEIGHT] == str(conf.weight)
    for name in (known.MIXED_CHIPS, known.NODE_LOCK, known.RESOURCE_CLAIMS):
        assert defaults[name] == "false"


def test_every_argument_of_the_node_plugins_is_explained_with_its_default():
    table = rows("Node predicates and scores")
    of_binpack = {nodes.BINPACK_WEIGHT, nodes.BINPACK_CPU, nodes.BINPACK_MEMORY}
    fields = nodes.PREDICATE_ARGUMENTS | nodes.NODEORDER_ARGUMENTS
    others = {
        nodes.BIND_TIMEOUT,
        *nodes.PREDICATES_WITHOUT_EFFECT,
        nodes.BINPACK_RESOURCES,
        f"{nodes.BINPACK_RESOURCES}.NAME",
    }
    rates = {f"{nodes.PROPORTIONAL_RESOURCES}.NAME.{of}" for of in ("cpu", "memory")}
    proportional = {nodes.PROPORTIONAL, nodes.PROPORTIONAL_RESOURCES, *rates}
    assert set(table) == fields.keys() | of_binpack | others | proportional
    defaults = {name: cells[0] for name, cells in table.items()}
    assert (defaults[nodes.PROPORTIONAL], {defaults[name] for name in rates}) == ("false", {"1"})
    assert (nodes.Proportion("x").cpu, nodes.Proportion("x").memory) == (1.0, 1.0)
    assert float(defaults[nodes.BIND_TIMEOUT]) == nodes.Predicates().bind_timeout
    for name, field in fields.items():
        default = getattr(nodes.NodeOrder() if name in nodes.NODEORDER_ARGUMENTS else nodes.Predicates(), field)
        assert defaults[name] == str(default).lower(), name
    assert {defaults[name] for name in of_binpack} == {"1"}
    assert (nodes.Binpack().weight, dict(nodes.Binpack().resources)) == (1, {"cpu": 1, "memory": 1})


@pytest.mark.parametrize("argument", [known.POLICY, known.MIG_GEOMETRY])
def test_the_values_of_an_argument_are_accepted(argument):
    for value in re.findall(r"`([^`]+)`", rows("volcano-scheduler.conf")[argument][0]):
        arguments = f"{{deviceshare.VGPUEnable: true, {known.WEIGHT}: 1, {argument}: {value}}}"
        text = f"- name: deviceshare\n  arguments: {arguments}"
        assert parse_conf(text, "x").warnings == ()


def test_every_key_of_the_devices_is_explained():
    keys = {*VGPU_KEYS, *PLUGIN_KEYS, *CHIP_KEYS, "hamiVnpuCore"}
    assert set(rows("device-config.yaml")) == keys


def test_every_key_of_hami_is_explained_with_its_default():
    table = rows("GPUs of HAMi in device-config.yaml")
    shared = {"defaultGPUNum"}
    assert {name for name in table if not name.startswith("nvidia.com/")} == {*HAMI_KEYS} - shared
    names = parse_devices("hami: {}", "x").section(HamiConf)
    assert table["resourceCountName"][0] == f"`{names.number}`"
    assert table["resourcePriorityName"][0] == f"`{names.priority}`"
    memory = ", ".join(f"`{name}`" for name in (names.memory, names.percentage, names.cores))
    assert table["resourceMemoryName"][0] == memory
    assert (table["defaultMemory"][0], table["memoryFactor"][0]) == ("0", str(names.request_factor))


def test_the_defaults_of_the_devices_are_those_shown():
    table = rows("device-config.yaml")
    shown = {key: table[key][0].strip("`") for key in VGPU_KEYS}
    conf = parse_devices("nvidia: {}", "x").section(VgpuConf)
    assert shown["resourceCountName"] == conf.number
    assert shown["resourceMemoryName"] == conf.memory
    assert shown["resourceCoreName"] == conf.cores
    assert shown["resourceMemoryPercentageName"] == f"none; without a ConfigMap `{VgpuConf().percentage}"
    assert conf.percentage == ""
    numbers = (conf.default_number, conf.default_memory, conf.default_cores, conf.memory_factor)
    assert tuple(shown[key] for key in ("defaultGPUNum", "defaultMemory", "defaultCores", "gpuMemoryFactor")) == tuple(
        map(str, numbers)
    )


def test_the_example_is_read_without_a_warning():
    (example,) = re.findall(r"^```yaml\n(apiVersion.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    conf = parse_devices(example, "x")
    assert conf.warnings == ()
    assert conf.section(VgpuConf) == VgpuConf(geometries=conf.section(VgpuConf).geometries)
    assert [model.models for model in conf.section(VgpuConf).geometries] == [("A30",)]
    assert [chip.word for chip in conf.section(VnpuConf).chips] == ["Ascend910B3"]
