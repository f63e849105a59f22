"""The release workflow: its scripts, and what workflows refer to."""

import importlib.util
import re
import subprocess
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from support import charts

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yaml"))
VALUES = (charts.CHART / "values.yaml").read_text()
DIGEST = f"sha256:{'a1' * 32}"


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / ".ci" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_workflows_are_valid() -> None:
    done = subprocess.run(
        [charts.tool("actionlint"), "-shellcheck=", "-pyflakes="], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_actions_are_pinned_to_commits() -> None:
    """A tag of an action can be moved to other code, which would run with the rights of the job."""
    for path in WORKFLOWS:
        used = re.findall(r"uses: (.+)", path.read_text())
        assert used
        for each in used:
            assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", each), f"{path.name}: {each}"


def test_an_image_gets_its_tag_after_the_audit_and_the_signature() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yaml").read_text())
    jobs = workflow["jobs"]
    assert "audit" in jobs["images"]["needs"]
    assert "pip-audit" in "".join(step.get("run", "") for step in jobs["audit"]["steps"])
    steps = jobs["images"]["steps"]
    (build,) = (step["with"] for step in steps if "build-push-action" in step.get("uses", ""))
    assert "push-by-digest=true" in build["outputs"]
    assert not {"tags", "push"} & set(build)
    runs = [step.get("run", "") for step in steps]
    (signed,) = (number for number, text in enumerate(runs) if "cosign sign" in text)
    (tagged,) = (number for number, text in enumerate(runs) if "--tag" in text)
    assert signed < tagged


def test_workflows_name_existing_files_and_targets() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for path in WORKFLOWS:
        text = path.read_text()
        for name in re.findall(r"(?:\.ci|requirements|deploy|tests)/[\w./-]*\w", text):
            assert (ROOT / name).exists() or "$" in text.partition(name)[2][:2], f"{path.name}: {name}"
        for target in re.findall(r"\bmake (\w+)", text):
            assert f"\n{target}:" in makefile


def test_no_workflow_has_more_permissions_than_it_needs() -> None:
    for path in WORKFLOWS:
        workflow: dict[str, Any] = yaml.safe_load(path.read_text())
        assert workflow["permissions"] == {"contents": "read"}
        for name, job in workflow["jobs"].items():
            writes = {each for each, mode in job.get("permissions", {}).items() if mode == "write"}
            publishes = {"images": {"packages", "id-token"}, "chart": {"contents", "packages", "id-token"}}
            assert writes == (publishes.get(name, set()) if path.stem == "release" else set())


def test_the_version_of_a_release_is_that_of_all_packages() -> None:
    check = script("check_version")
    assert len(check.versions()) == 12
    assert len(set(check.versions().values())) == 1
    changelog = (
        "# Changelog\n\n## [Unreleased]\n\nnew\n\n## [1.2.3] - 2026-01-01\n\n### Added\n\n- x\n\n## [1.2.2]\n\nold\n"
    )
    assert check.changes("1.2.3", changelog) == "### Added\n\n- x"
    assert check.changes("1.2.2", changelog) == "old"
    assert check.changes("1.2", changelog) == ""
    done = subprocess.run([ROOT / ".ci" / "check_version.py", "99.0.0"], capture_output=True, text=True)
    assert done.returncode == 1
    assert "CHANGELOG.md has no section [99.0.0]" in done.stderr


def test_a_released_chart_names_its_images_by_digest(tmp_path: Path) -> None:
    for name in ("image", "cli"):
        (tmp_path / name).write_text(f"ghcr.io/someone/{name}@{DIGEST}\n")
    values = tmp_path / "values.yaml"
    values.write_text(VALUES)
    subprocess.run([ROOT / ".ci" / "pin_images.py", values, tmp_path / "image", tmp_path / "cli"], check=True)
    found: dict[str, Any] = yaml.safe_load(values.read_text())
    assert found["image"]["repository"] == "ghcr.io/someone/image"
    assert found["cliImage"]["repository"] == "ghcr.io/someone/cli"
    assert found["image"]["digest"] == found["cliImage"]["digest"] == DIGEST
    assert found["bus"] == yaml.safe_load(VALUES)["bus"]
    images = {
        container["image"]
        for obj in charts.rendered("--values", str(values))
        if obj["kind"] in ("Deployment", "Job")
        for container in obj["spec"]["template"]["spec"]["containers"]
    }
    assert images == {f"ghcr.io/someone/image@{DIGEST}", f"ghcr.io/someone/cli@{DIGEST}"}


def test_an_image_without_a_digest_is_rejected() -> None:
    pin = script("pin_images")
    with pytest.raises(ValueError, match="is not NAME@sha256:DIGEST"):
        pin.pinned(VALUES, "image", "ghcr.io/someone/image:1.0.0")
    with pytest.raises(ValueError, match="no section"):
        pin.pinned(VALUES, "images", f"image@{DIGEST}")
