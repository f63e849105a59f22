"""The documentation site builds without warnings, and loads nothing from other servers."""

import importlib.util
import re
import shutil
import subprocess
from pathlib import Path
from types import ModuleType

import pytest
import yaml

ROOT = Path(__file__).parents[2]
HTML = ROOT / ".cache" / "site" / "html"


def hooks() -> ModuleType:
    spec = importlib.util.spec_from_file_location("hooks", ROOT / "deploy" / "site" / "hooks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def site() -> Path:
    """Build the site with ``make site``, which fails on warnings."""
    shutil.rmtree(HTML, ignore_errors=True)
    built = subprocess.run(["make", "--no-print-directory", "site"], cwd=ROOT, capture_output=True, text=True)
    if not (ROOT / ".cache" / "site" / "venv" / "bin" / "mkdocs").exists():
        pytest.skip(f"mkdocs cannot be installed: {built.stderr[-300:]}")
    assert built.returncode == 0, built.stdout + built.stderr
    return HTML


def test_the_site_has_every_page(site: Path) -> None:
    pages = {path.stem for path in (ROOT / "docs").glob("*.md")} | {Path(name).stem for name in hooks().PAGES.values()}
    assert pages <= {path.stem for path in site.glob("*.html")}
    text = re.sub(r"!!python\S+.*", "", (ROOT / "mkdocs.yml").read_text())
    listed = re.findall(r"[\w-]+\.md", str(yaml.safe_load(text)["nav"]))
    assert sorted(Path(name).stem for name in listed) == sorted(pages)


def test_a_wrong_anchor_is_a_warning(site: Path, tmp_path: Path) -> None:
    """The site of one page whose link leads to a heading that does not exist does not build."""
    assert site.exists()
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text("# A\n\n[b](#c)\n")
    (tmp_path / "mkdocs.yml").write_text("site_name: x\nvalidation: {anchors: warn}\n")
    mkdocs = ROOT / ".cache" / "site" / "venv" / "bin" / "mkdocs"
    built = subprocess.run([mkdocs, "build", "--strict"], cwd=tmp_path, capture_output=True, text=True)
    assert built.returncode != 0
    assert "validation:\n" in (ROOT / "mkdocs.yml").read_text()
    assert "  anchors: warn\n" in (ROOT / "mkdocs.yml").read_text()


def test_the_site_loads_nothing_from_other_servers(site: Path) -> None:
    for page in site.glob("*.html"):
        loaded = re.findall(r'<(?:script|img|iframe)[^>]* src="(https?:[^"]*)"', page.read_text())
        loaded += re.findall(r'<link[^>]* rel="stylesheet"[^>]* href="(https?:[^"]*)"', page.read_text())
        assert loaded == [], page.name


@pytest.mark.parametrize(
    ("text", "source", "repository", "expected"),
    [
        ("[a](docs/bus.md#streams)", "README.md", "", "[a](bus.md#streams)"),
        ("[`a`](CHANGELOG.md)", "README.md", "", "[`a`](changelog.md)"),
        ("[a](../README.md)", "docs/bus.md", "", "[a](index.md)"),
        ("[`a`](../tests/conftest.py)", "docs/bus.md", "", "`a`"),
        ("[a](../tests/x.py)", "docs/bus.md", "https://host/o/r/", "[a](https://host/o/r/blob/main/tests/x.py)"),
        ("[a](https://other/)", "docs/bus.md", "", "[a](https://other/)"),
        ("[a](#streams)", "docs/bus.md", "", "[a](#streams)"),
        ("![a](docs/images/x.png)", "README.md", "", "![a](images/x.png)"),
        ("```\n[a](../x)\n```\n[b](../x)", "docs/bus.md", "", "```\n[a](../x)\n```\nb"),
    ],
)
def test_links_hold_on_the_site(text: str, source: str, repository: str, expected: str) -> None:
    assert hooks().linked(text, source, repository) == expected
