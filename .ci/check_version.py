#!/usr/bin/env python3
"""Check that all packages, the chart and the changelog have the version of a release, and print its changes."""

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def versions() -> dict[str, str]:
    """Return the versions of the repository, by the file that names them."""
    found = {
        str(path.relative_to(ROOT)): tomllib.loads(path.read_text())["project"]["version"]
        for part in ("libs/*", "services/*", "lab")
        for path in ROOT.glob(f"{part}/pyproject.toml")
    }
    chart = ROOT / "deploy" / "helm" / "deviceshare" / "Chart.yaml"
    for name in ("version", "appVersion"):
        (found[f"{chart.relative_to(ROOT)}, {name}"],) = re.findall(
            rf'^{name}: "?([^"\n]+)"?$', chart.read_text(), re.MULTILINE
        )
    return found


def changes(version: str, changelog: str) -> str:
    """Return the section of a version in the changelog, '' if there is none."""
    found = re.search(rf"^## \[{re.escape(version)}\][^\n]*\n(.*?)(?=^## \[|\Z)", changelog, re.DOTALL | re.MULTILINE)
    return found[1].strip() if found else ""


def main() -> int:
    """Print the changes of the version in the arguments, or what contradicts it."""
    version = sys.argv[1]
    wrong = [f"{where} has {each}, not {version}" for where, each in versions().items() if each != version]
    text = changes(version, (ROOT / "CHANGELOG.md").read_text())
    if not text:
        wrong.append(f"CHANGELOG.md has no section [{version}]")
    print("\n".join(wrong) or text, file=sys.stderr if wrong else sys.stdout)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
