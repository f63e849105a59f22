"""The table of bounds in docs/bounds.md is complete: constants, caches, queues and semaphores of all services.

What can be found by its form is found: constants with the name of a bound, `lru_cache`, `deque(maxlen=…)`, `Queue`,
`Semaphore`. Maps that the code itself keeps small are found by the constants to which it compares their sizes.
"""

import ast
import functools
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "bounds.md").read_text()
ROWS = [row for row in PAGE.splitlines() if row.startswith("| ")]
PLACE = re.compile(r"`((?:[a-z_]+\.)+_?[A-Za-z_]+)`")
BOUND = re.compile(
    r"MOST_|^LIMIT$|_LIMIT$|IN_FLIGHT|^READS$|^REQUESTS$|^WRITES$|PENDING_|INBOX_|MAX_|AT_ONCE|"
    r"WAITING$|^UPDATES$|^BATCHES$|QUEUE_SIZE|BYTES$|BUFFER$|^FULL$|^LARGEST$|_BATCH$|^DELETIONS$"
)
NO_BUFFERS = {
    "deviceshare_metrics.core.start_estimates.MAX_FACTOR": "a limit of one range",
    "deviceshare_metrics.core.start_estimates._MAX_WRONG": "a limit of one range",
    "deviceshare.families.dra.cel.MAX_LENGTH": "a limit of one object",
    "deviceshare.families.dra.cluster_devices.MAX_RESERVED": "a limit of one object",
    "deviceshare.families.dra.requests.MAX_DEVICES": "a limit of one object",
    "deviceshare.families.dra.solver.MAX_STEPS": "a limit of one search",
    "deviceshare.families.vgpu.section.MAX_INSTANCES": "a limit of one object",
    "deviceshare.conf.yaml_loader.MAX_ALIASED": "a limit of one object",
    "deviceshare.families.protocol.MAX_CARDS": "a limit of one object",
    "deviceshare.families.selection._MAX_TYPES": "names in a message",
    "deviceshare.families.volcano_gpu.wire.MAX_CARDS": "a limit of one object",
    "deviceshare.model.quantities.LARGEST": "the largest number",
    "deviceshare.objects.held.MAX_ALONE": "a limit of one object",
    "deviceshare.objects.lenient.MAX_REPAIRS": "a limit of one object",
    "deviceshare_bus.web.settings.MAX_CHARACTERS": "a limit of one token",
    "deviceshare_bus.web.settings.MAX_BYTES": "a limit of one file",
    "deviceshare_bus.wire.connection_reader.READ_AT_ONCE_BYTES": "a limit of one read",
    "deviceshare_bus.streams.publisher._INCOMPLETE_BATCH": "a code of nats-server",
    "deviceshare.conf.reading.LARGEST": "the largest number",
    "deviceshare.families.registry.pod_keys": "without arguments",
    "deviceshare_binder.service.MAX_JITTER": "seconds",
    "deviceshare_bus.runtime.plugins.load_families": "without arguments",
    "deviceshare_localcluster.known_fields._types": "a file of this package for each kind",
    "deviceshare_metrics.api.MAX_WHOLE": "a limit of one object",
    "deviceshare_metrics.lists.MAX_NAMES": "names in an answer",
}


@functools.cache
def modules() -> dict[str, ast.Module]:
    """Return the modules of all packages but the command's, by name."""
    parsed = {}
    for source in sorted([*ROOT.glob("libs/*/src"), *ROOT.glob("services/*/src")]):
        for file in sorted(source.rglob("*.py")):
            name = ".".join(file.relative_to(source).with_suffix("").parts).removesuffix(".__init__")
            if not name.startswith("deviceshare_cli"):
                parsed[name] = ast.parse(file.read_text())
    return parsed


def constants(module: ast.Module) -> Iterator[str]:
    for node in module.body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        for target in targets:
            for each in target.elts if isinstance(target, ast.Tuple) else [target]:
                if isinstance(each, ast.Name):
                    yield each.id


def bounds() -> dict[str, int | float]:
    """Return the constants that are bounds by their names."""
    found = {}
    for name, module in modules().items():
        for constant in constants(module):
            if constant.isupper() and BOUND.search(constant) and not name.startswith("deviceshare.kernels"):
                value = getattr(importlib.import_module(name), constant)
                if isinstance(value, int | float) and not isinstance(value, bool):
                    found[f"{name}.{constant}"] = value
    return found


def called(node: ast.AST) -> str:
    return getattr(node, "attr", getattr(node, "id", ""))


def caches() -> set[str]:
    """Return the functions with a cache of a fixed size."""
    return {
        f"{name}.{node.name}"
        for name, module in modules().items()
        for node in ast.walk(module)
        if isinstance(node, ast.FunctionDef)
        for decorator in node.decorator_list
        if called(decorator.func if isinstance(decorator, ast.Call) else decorator) in ("lru_cache", "cache")
    }


PLACES = sorted(set(PLACE.findall(PAGE)))


def is_listed(name: str) -> bool:
    return any(ends_with(name, place) for place in PLACES)


def ends_with(name: str, place: str) -> bool:
    """Return whether a place names an object; the package is left out, or is without its prefix."""
    return f".{name.removeprefix('deviceshare_')}".endswith(f".{place}")


def test_every_bound_is_listed() -> None:
    missing = [name for name in sorted({*bounds(), *caches()} - NO_BUFFERS.keys()) if not is_listed(name)]
    assert not missing, "docs/bounds.md, Bounds: they are missing, or are no buffers (NO_BUFFERS)"


@pytest.mark.parametrize("place", PLACES)
def test_every_listed_name_exists_with_the_value_shown(place: str) -> None:
    module, _, name = place.rpartition(".")
    (found,) = {each for each in modules() if ends_with(each, module) and hasattr(importlib.import_module(each), name)}
    value = getattr(importlib.import_module(found), name)
    if not isinstance(value, int | float):
        value = value.cache_parameters()["maxsize"]
    texts = {f"{value:,.0f}"}
    if isinstance(value, int):
        texts |= {f"{value >> shift} {unit}" for shift, unit in ((10, "KiB"), (20, "MiB")) if value >> shift}
    rows = [row for row in ROWS if f"`{place}`" in row]
    for row in rows:
        assert any(re.search(rf"(?<![\d,]){text}(?!\d|,\d)", row) for text in texts), (texts, row)


def test_every_row_with_a_number_says_what_happens() -> None:
    for row in ROWS:
        *_, bound, full = (cell.strip() for cell in row.strip("|").split(" | "))
        assert full.strip("| ") or not PLACE.search(bound) or "seconds" in bound, row


def test_no_exception_is_outdated() -> None:
    assert set(NO_BUFFERS) <= {*bounds(), *caches()}


def test_queues_and_semaphores_are_bounded_by_constants_or_arguments() -> None:
    for name, module in modules().items():
        for node in ast.walk(module):
            if not isinstance(node, ast.Call):
                continue
            arguments = [*node.args, *(each.value for each in node.keywords)]
            if called(node.func) in ("Semaphore", "BoundedSemaphore", "LifoQueue", "PriorityQueue") or (
                called(node.func) == "Queue" and getattr(node.func, "value", None) is not None
            ):
                assert len(arguments) == 1, (name, ast.unparse(node))
                assert isinstance(arguments[0], ast.Name), (name, ast.unparse(node))
            assert called(node.func) != "SimpleQueue", name
