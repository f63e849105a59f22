"""Errors and warnings name the line and column of the field in the file."""

import pytest
from deviceshare.conf import Origin, YamlText, parse_conf, parse_devices
from deviceshare.model import ConfigError

TEXT = """\
# a comment
a: 1
---
base: &base {x: 1, y.z: [{é: 2}, three]}
spec:
  merged:
    <<: *base
    x: 4
  again: first
  again: second
  "[odd]": 5
"""


@pytest.mark.parametrize(
    ("path", "key", "position"),
    [
        ("", "", (4, 1)),
        ("$", "", (4, 1)),
        ("", "spec", (5, 1)),
        ("spec", "", (6, 3)),
        ("base[y.z][1]", "", (4, 34)),
        ("base[y.z][0].é", "", (4, 30)),
        ("base[y.z][7].é", "", (4, 25)),
        ("spec.merged.x", "", (8, 8)),
        ("spec.merged[y.z]", "", (4, 25)),
        ("spec.again", "", (10, 10)),
        ("spec.missing.too", "", (6, 3)),
        ("spec", "unknown", (6, 3)),
        ("spec[[odd]]", "", (11, 12)),
        ("other", "", (4, 1)),
    ],
)
def test_a_path_has_a_position(path: str, key: str, position: tuple[int, int]) -> None:
    assert YamlText(TEXT).position(1, path, key) == position


def test_a_document_that_does_not_exist_has_none() -> None:
    assert Origin("File x", YamlText("a: [")).locate("a") == "File x"


def test_the_origin_of_a_part_is_relative_to_it() -> None:
    origin = Origin("File x", YamlText("items:\n- a: {b: 1}\n")).part("items[0]")
    assert origin.locate("a.b") == "File x, line 2, column 10"
    assert origin.locate("") == "File x, line 2, column 3"


INNER = (
    "actions: enqueue",
    "tiers:",
    "- plugins:",
    "  - {name: deviceshare, arguments: {deviceshare.VGPUEnable: maybe}}",
)


def config_map(indicator: str, *lines: str) -> str:
    inner = "\n".join(f"    {line}" for line in lines)
    return f"# where it stands\nkind: ConfigMap\ndata:\n  volcano-scheduler.conf: {indicator}\n{inner}\n"


def subject_of(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        parse_conf(text, "File cm.yaml")
    return caught.value.problem.subject


@pytest.mark.parametrize("indicator", ["|", "|-", "|+", "|2", "| # comment"])
def test_a_configuration_in_a_block_scalar_has_positions_of_the_file_around_it(indicator: str) -> None:
    assert subject_of(config_map(indicator, *INNER)) == "File cm.yaml, line 8, column 65"


def test_a_configuration_in_another_scalar_has_its_own_positions() -> None:
    text = config_map(">-", *("\n    ".join((line, "")) for line in INNER))
    assert subject_of(text) == "File cm.yaml data[volcano-scheduler.conf], line 5, column 61"


def test_what_does_not_parse_in_a_block_scalar_has_its_line_in_the_file_around_it() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_conf(config_map("|", "actions: enqueue", "tiers: ["), "File cm.yaml")
    assert (caught.value.problem.subject, caught.value.problem.field) == ("File cm.yaml", "line 7")


def test_lines_that_are_left_out_keep_the_numbers_of_the_others() -> None:
    conf = parse_conf(config_map("|", "actions: enqueue", "...", "tier: []"), "File cm.yaml")
    assert conf.warnings[0].startswith("File cm.yaml: line 6: ")
    assert conf.warnings[1].startswith("File cm.yaml, line 7, column 5: tier: unknown key 'tier' is ignored")


def test_a_key_that_nobody_knows_has_the_position_of_the_key() -> None:
    (warning,) = parse_devices("nvidia:\n  defaultMem:\n    0\n", "File d.yaml").warnings
    assert warning.startswith("File d.yaml, line 2, column 3: nvidia: unknown key 'defaultMem' is ignored")


def test_values_that_are_right_are_never_located(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(YamlText, "position", None)
    text = "tiers: [{plugins: [{name: deviceshare, arguments: {deviceshare.VGPUEnable: true}}]}]"
    assert parse_conf(text, "x").warnings == ()
