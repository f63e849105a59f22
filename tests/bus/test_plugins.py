"""Device families of installed packages are registered by a service; errors name the package."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from deviceshare.conf.known import family_flags
from deviceshare.families import BY_NAME, FAMILIES
from deviceshare.model import ConfigError
from deviceshare_bus.runtime.plugins import load_families
from support.families import restored_families

ACME = """
from deviceshare.families import BY_NAME

class Acme(type(BY_NAME["gpu-number"])):
    name = "acme"
    flag = "deviceshare.AcmeEnable"

acme = Acme()
"""
Install = Callable[..., Path]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Puts a package with entry points where Python looks for packages; what it registered is taken back at the end."""

    def put(entry_points: str, module: str = ACME, name: str = "acme") -> Path:
        information = tmp_path / f"{name}_families-1.5.dist-info"
        information.mkdir()
        (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}-families\nVersion: 1.5\n")
        (information / "entry_points.txt").write_text(f"[deviceshare.families]\n{entry_points}\n")
        (tmp_path / f"{name}_families.py").write_text(module)
        return tmp_path

    monkeypatch.syspath_prepend(tmp_path)
    load_families.cache_clear()
    with restored_families():
        yield put
    sys.modules.pop("acme_families", None)
    load_families.cache_clear()


@pytest.mark.parametrize("value", ["acme_families:Acme", "acme_families:acme"])
def test_the_family_of_an_installed_package_is_known(install: Install, value: str) -> None:
    install(f"acme = {value}")
    load_families()
    assert FAMILIES[-1] is BY_NAME["acme"]
    assert "deviceshare.AcmeEnable" in family_flags()
    count = len(FAMILIES)
    load_families()
    assert len(FAMILIES) == count


@pytest.mark.parametrize(
    ("value", "module", "why"),
    [
        ("acme_families:Acme", "raise RuntimeError('no driver')", "RuntimeError: no driver"),
        ("acme_families:Acme", "", "AttributeError"),
        ("elsewhere:Acme", "", "ModuleNotFoundError: No module named 'elsewhere'"),
        (
            "acme_families:Acme",
            "class Acme:\n    name = 'acme'\n    flag = 'x'",
            "is no device family: it has no answers",
        ),
    ],
)
def test_an_entry_point_that_cannot_be_loaded_is_named(install: Install, value: str, module: str, why: str) -> None:
    install(f"first = {value}", module)
    with pytest.raises(ConfigError) as caught:
        load_families()
    problem = caught.value.problem
    assert problem.subject == "Package acme-families 1.5"
    assert (problem.field, problem.value) == ("entry point first of deviceshare.families", value)
    assert why in problem.expected
    assert "acme" not in BY_NAME


def test_two_families_of_one_name_are_named(install: Install) -> None:
    install("one = acme_families:Acme\ntwo = acme_families:acme")
    with pytest.raises(ConfigError, match=r"entry point two .* acme_families:Acme is called acme as well"):
        load_families()


@pytest.mark.parametrize("service", ["placement", "inventory"])
def test_a_service_does_not_start_without_a_family_that_is_installed(install: Install, service: str) -> None:
    directory = install("acme = acme_families:Acme", "import no_such_driver")
    done = subprocess.run(
        [sys.executable, "-m", f"deviceshare_{service}", *(["--cluster", "local:x"] if service == "inventory" else [])],
        env={**os.environ, "PYTHONPATH": str(directory)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    assert "Package acme-families 1.5: entry point acme of deviceshare.families: 'acme_families:Acme'" in done.stderr
    assert "No module named 'no_such_driver'" in done.stderr
    assert "Traceback" not in done.stderr
