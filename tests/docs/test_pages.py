"""The pages name only existing things: links, commands, options, codes, metrics, streams, fields of messages."""

import re
import shlex
from pathlib import Path
from pkgutil import resolve_name

import deviceshare_bus.messages.codec
import deviceshare_bus.messages.leases
import msgspec
import pytest
import typer
import yaml
from deviceshare.allocation.resource_names import device_names
from deviceshare.conf import SchedulerConf
from deviceshare.families import FAMILIES, pod_keys
from deviceshare.families.vgpu.wire import PODGROUP_POLICY
from deviceshare.model import claims, cluster_facts, device_claims, facts, pod_topology, storage_facts, volumes
from deviceshare.model import explanations as explain
from deviceshare.objects.pod import GROUP_ANNOTATIONS, QUEUE_ANNOTATIONS, TASK_NAME, TASK_PRIORITY
from deviceshare_bus.messages.subjects import Stream
from deviceshare_bus.runtime import service
from deviceshare_bus.runtime.setup import parser as setup_parser
from deviceshare_cli.main import app
from deviceshare_metrics.core import MetricsCore
from support.charts import POD_ANNOTATIONS
from support.metrics import exposed

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    *(ROOT / name for name in ("CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md")),
    *sorted((ROOT / "docs").glob("*.md")),
]
CONFIGURATION, MONITORING, PENDING = (
    (ROOT / "docs" / name).read_text() for name in ("configuration.md", "monitoring.md", "pending.md")
)
BUS = (ROOT / "docs" / "bus.md").read_text()
REQUESTS = (ROOT / "docs" / "requests.md").read_text()
SOURCES = "\n".join(
    file.read_text() for part in ("lab", "libs", "services") for file in (ROOT / part).rglob("src/**/*.py")
)

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


def anchors(text: str) -> set[str]:
    """Return the anchors that GitHub gives to a page's headings."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def section(text: str, heading: str) -> str:
    """Return the part of a page under one heading."""
    found = re.search(rf"^#+ {re.escape(heading)}\n(.*?)(?=^#+ |\Z)", text, re.DOTALL | re.MULTILINE)
    assert found is not None, heading
    return found[1]


def first_cells(table: str) -> list[list[str]]:
    """Return the names in code font in the first cell of each row of a table."""
    return [re.findall(r"`([^`]+)`", row.split("|")[1]) for row in table.splitlines() if row.startswith("| `")]


@each_page
def test_links_have_a_target(page):
    text = page.read_text()
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if target.startswith("https://"):
            continue
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        assert there.exists(), target
        assert not anchor or anchor in anchors(there.read_text()), target


@each_page
def test_targets_of_make_exist(page):
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"(?:`|^)make ([a-z-]+)", page.read_text(), re.MULTILINE)) <= targets


@each_page
def test_names_of_the_code_exist(page):
    attributes = (ROOT / "libs/deviceshare-bus/src/deviceshare_bus/runtime/tracing.py").read_text()
    for name in re.findall(r"`(deviceshare(?:_[a-z]+)?(?:\.\w+)+)`", page.read_text()):
        # An argument of the plugin deviceshare, or an attribute of a span.
        if not (re.match(r"deviceshare\.[A-Z]", name) or f'"{name}"' in attributes):
            assert resolve_name(name) is not None


@each_page
def test_paths_of_the_code_exist(page):
    """``deviceshare/`` stands for ``libs/deviceshare/src/deviceshare/``."""
    for name in re.findall(r"`((?:deviceshare\w*|lab|libs|services|tests)/[\w./-]*)`", page.read_text()):
        assert (ROOT / name).exists() or any(ROOT.glob(f"*/*/src/{name}")), name


@each_page
def test_commands_and_their_options_exist(page):
    root = typer.main.get_command(app)
    root.list_commands(typer.Context(root))  # adds those of other distributions
    consoles = "\n".join(re.findall(r"^```console\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE))
    lines = re.findall(r"^(?:\$ )?(?:\.venv/bin/)?deviceshare( .+)$", consoles, re.MULTILINE)
    lines += re.findall(r"`deviceshare( [^`\n]+)`", page.read_text())
    for line in lines:
        command, options = root, []
        for word in shlex.split(line, comments=True):
            if word.startswith("-"):
                options.append(word)
            elif hasattr(command, "commands") and not options:
                assert word in command.commands, f"deviceshare{line}"
                command = command.commands[word]
        known = {name for parameter in command.params for name in parameter.opts}
        assert set(options) <= known, f"deviceshare{line}"


@each_page
def test_directories_of_local_clusters_exist(page):
    for name in re.findall(r"--cluster local:([a-z][\w./-]*)", page.read_text()):
        assert (ROOT / name).is_dir(), name


def test_every_code_of_a_refusal_is_explained():
    used = set(
        re.findall(r'(?:Check|card_check|node_check|amount_check|Reason|Refusal)\(\s*(?:code=)?"([A-Z]\w+)"', SOURCES)
    )
    used |= {code for pair in re.findall(r'code="(\w+)" if .* else "(\w+)"', SOURCES) for code in pair}
    explained = [cell[0] for cell in first_cells(section(PENDING, "Pending pods"))]
    assert len(used) > 15
    assert sorted(explained) == sorted(used)


def test_every_annotation_and_label_of_a_pod_is_explained_and_permitted_by_the_admission_policy():
    rows = first_cells(section(REQUESTS, "Annotations and labels of a pod"))
    annotations = {
        PODGROUP_POLICY,
        TASK_NAME,
        TASK_PRIORITY,
        *GROUP_ANNOTATIONS,
        *QUEUE_ANNOTATIONS,
        *pod_keys().policies,
    }
    annotations = annotations.union(*(family.pod_annotations for family in FAMILIES))
    labels = frozenset().union(*(family.pod_labels for family in FAMILIES))
    assert {name for cell in rows for name in cell} == annotations | labels
    permitted = yaml.safe_load(POD_ANNOTATIONS.read_text())
    assert {*permitted["users"], *permitted["usersUntilBound"]} == annotations


def test_the_register_annotations_of_the_page_are_read():
    names = [name for cell in first_cells(section(REQUESTS, "Annotations and labels of a node")) for name in cell]
    assert len(names) > 8
    for name in names:
        assert f'"{name.replace("Ascend910B3", "")}"' in SOURCES, name


def test_explained_resources_can_be_requested():
    asked = device_names(SchedulerConf()) | {"nvidia.com/gpu", "amd.com/gpu", "huawei.com/Ascend910"}
    assert {name for cell in first_cells(section(REQUESTS, "Resources")) for name in cell} == asked


def test_every_metric_is_explained():
    text = exposed(MetricsCore())
    shown = set(re.findall(r"^# TYPE ((?:deviceshare|volcano_vgpu|scheduler)_\w+) ", text, re.MULTILINE))
    counted = set(re.findall(r'\b(?:events\.count|Count)\(\s*"(\w+)"', SOURCES)) | {"undecodable_messages"}
    shown |= {f"deviceshare_{name}_total" for name in counted}
    explained = set(re.findall(r"`((?:deviceshare|volcano_vgpu|scheduler)_\w+)[`{]", section(MONITORING, "Metrics")))
    assert explained == shown


def test_every_option_of_the_services_is_explained():
    rows = section(CONFIGURATION, "Options of the services")
    explained = set(re.findall(r"`(--[\w-]+)`", rows))
    known = {option for action in service.parser("x")._actions for option in action.option_strings} - {"-h", "--help"}
    assert known <= explained
    for option in explained - known:
        assert f'"{option}"' in SOURCES, option
    for variable in re.findall(r"`(DEVICESHARE_\w+)`", CONFIGURATION):
        assert variable in SOURCES or variable in (ROOT / "compose.yaml").read_text(), variable


def test_the_set_up_step_accepts_the_options_shown():
    shown = re.findall(r"python -m deviceshare_bus\.runtime\.setup ([^`]+)`", BUS)
    assert shown
    for line in shown:
        setup_parser().parse_args(shlex.split(line))


def test_the_page_lists_the_streams():
    assert {cell[0] for cell in first_cells(section(BUS, "Streams"))} == set(Stream)


def test_the_page_lists_the_fields_of_messages():
    modules = (
        facts, cluster_facts, storage_facts, claims, explain, deviceshare_bus.messages.codec,
        deviceshare_bus.messages.leases,
    )  # fmt: skip
    rows = [row for row in section(BUS, "Messages").splitlines() if row.startswith("| `")]
    assert len(rows) > 10
    for row in rows:
        _, name_cell, fields_cell, _ = row.split("|")
        name = re.findall(r"`(\w+)`", name_cell)[0]
        struct = next(getattr(module, name) for module in modules if hasattr(module, name))
        fields = [field.name for field in msgspec.structs.fields(struct) if field.name != "v"]
        assert re.findall(r"`(\w+)`", fields_cell) == fields, name


def test_structs_without_field_names_are_arrays():
    text = section(BUS, "Messages")
    sentence = text[text.index("are arrays") :].split(".")[0]
    names = re.findall(r"`(\w+)`", sentence)
    assert len(names) > 5
    for name in names:
        struct = next(
            getattr(m, name)
            for m in (
                facts,
                cluster_facts,
                claims,
                device_claims,
                pod_topology,
                volumes,
                deviceshare_bus.messages.codec,
            )
            if hasattr(m, name)
        )
        assert struct.__struct_config__.array_like, name
