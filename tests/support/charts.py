"""The Helm chart, rendered, and what kustomize builds. ``python -m support.charts`` renders deploy/kubernetes.

The chart is the source of its directories base and crds: each template becomes the file of its name.
"""

import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy" / "helm" / "deviceshare"
FILES = CHART / "files"
POD_ANNOTATIONS = FILES / "pod-annotations.yaml"
KUBERNETES = ROOT / "deploy" / "kubernetes"
BASE = KUBERNETES / "base"
CRDS = KUBERNETES / "crds"
NAMESPACE = "deviceshare-system"
HAND_WRITTEN = {"kustomization.yaml", "namespace.yaml"}
"""Files of both directories that no template becomes."""
_BUILD, _CACHE = ROOT / "tests" / "charts" / "build.sh", ROOT / ".cache" / "charts"
_HEADER = "# Generated from deploy/helm by `make manifests`.\n"
Object = dict[str, Any]


def tool(name: str) -> Path:
    """Return ``helm`` or ``kustomize``, built once, in minutes. Skips the test where they cannot be built."""
    built = subprocess.run([str(_BUILD), str(_CACHE)], capture_output=True, text=True)
    if built.returncode:
        pytest.skip(f"Helm and kustomize cannot be built: {' '.join(built.stderr.split()[-40:])}")
    return _CACHE / name


def helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Helm."""
    return subprocess.run([tool("helm"), *arguments], capture_output=True, text=True)


def rendered(*options: str) -> list[Object]:
    """Return the objects of the chart with these options, its kinds and hooks among them."""
    done = helm("template", "deviceshare", str(CHART), "--namespace", NAMESPACE, "--include-crds", *options)
    assert done.returncode == 0, done.stderr
    return objects(done.stdout)


def kustomized(directory: Path) -> list[Object]:
    """Return the objects that kustomize builds."""
    built = subprocess.run([tool("kustomize"), "build", str(directory)], capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    return objects(built.stdout)


def objects(text: str) -> list[Object]:
    """Return the objects of a YAML text."""
    return [obj for obj in yaml.safe_load_all(text) if obj]


def key(obj: Object) -> tuple[str, str, str]:
    """Return kind, namespace and name."""
    return obj["kind"], obj["metadata"].get("namespace", ""), obj["metadata"]["name"]


def base() -> dict[str, str]:
    """Return the files of the base, by name, as the templates give them with the default values."""
    files = {}
    with tempfile.TemporaryDirectory() as directory:
        done = helm("template", "deviceshare", str(CHART), "--namespace", NAMESPACE, "--output-dir", directory)
        assert done.returncode == 0, done.stderr
        for path in sorted(Path(directory).rglob("*.yaml")):
            parts = re.sub(r"^# Source: .*\n", "", path.read_text(), flags=re.MULTILINE).split("---\n")
            texts = [re.sub(r"[ \t]+$", "", part, flags=re.MULTILINE).strip("\n") + "\n" for part in parts]
            if any(objects(text) for text in texts):
                files[path.name] = _HEADER + "---\n".join(text for text in texts if objects(text))
    return files


def kinds() -> dict[str, str]:
    """Return the files of deploy/kubernetes/crds, by name: kustomize reads none outside of its directory."""
    return {path.name: _HEADER + path.read_text() for path in sorted((CHART / "crds").glob("*.yaml"))}


def written(directory: Path) -> dict[str, str]:
    """Return the generated files of a directory, by name."""
    return {path.name: path.read_text() for path in directory.glob("*.yaml") if path.name not in HAND_WRITTEN}


if __name__ == "__main__":
    for directory, files in ((BASE, base()), (CRDS, kinds())):
        for name in written(directory):
            (directory / name).unlink()
        for name, text in files.items():
            (directory / name).write_text(text)
