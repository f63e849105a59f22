#!/usr/bin/env python3
"""Build the wheels and sdists of all distributions of a commit: build_dist.py DIRECTORY [--url URL].

All have one version, and require one another in it: that of the tag vX.Y.Z of the commit, else X.Y.Z.dev0+gCOMMIT,
where X.Y.Z is the version in the repository. What is the same for all distributions is added here.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PARTS = ("libs/*", "services/*", "lab")
CLASSIFIERS = (
    "Development Status :: 4 - Beta",
    "Intended Audience :: System Administrators",
    "Operating System :: POSIX :: Linux",
    "Programming Language :: Python :: 3",
    "Topic :: System :: Clustering",
    "Typing :: Typed",
)


def git(*arguments: str) -> str:
    """Return the output of a git command in the repository."""
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def version_of_commit(base: str) -> str:
    """Return the version of the current commit; ``base``: the version in the repository."""
    tags = [tag for tag in git("tag", "--points-at", "HEAD").splitlines() if re.fullmatch(r"v\d+\.\d+\.\d+", tag)]
    if len(tags) > 1:
        raise SystemExit(f"the commit has several tags of versions: {', '.join(tags)}")
    return tags[0].removeprefix("v") if tags else f"{base}.dev0+g{git('rev-parse', '--short=8', 'HEAD')}"


def released(project: str, version: str, names: set[str], url: str) -> str:
    """Return a pyproject.toml as it is in a distribution."""

    def pinned(line: re.Match[str]) -> str:
        return re.sub(
            r'"([a-z-]+)"', lambda found: f'"{found[1]}=={version}"' if found[1] in names else found[0], line[0]
        )

    text = re.sub(r'^version = ".*"$', f'version = "{version}"', project, count=1, flags=re.MULTILINE)
    text = re.sub(r"^dependencies = \[.*\]$", pinned, text, count=1, flags=re.MULTILINE)
    added = [
        'readme = "README.md"',
        'license-files = ["LICENSE"]',
        'authors = [{ name = "The deviceshare authors" }]',
        'keywords = ["kubernetes", "scheduler", "gpu", "npu", "vgpu", "mig"]',
        f"classifiers = {json.dumps(CLASSIFIERS)}",
    ]
    if url:
        added.append(f'urls = {{ Homepage = "{url}", Changelog = "{url}/blob/main/CHANGELOG.md" }}')
    return re.sub(r"^(license = .*)$", lambda found: "\n".join([found[1], *added]), text, count=1, flags=re.MULTILINE)


def readme(name: str, description: str, url: str) -> str:
    """Return the page of a distribution."""
    about = (
        "deviceshare shares GPUs and NPUs among the pods of a Kubernetes cluster. The distribution deviceshare-cli\n"
        "has the command `deviceshare`; `deviceshare up --cluster local:DIR` schedules the pods of a directory."
    )
    where = f"\n\nDocumentation: {url}" if url else ""
    return f"# {name}\n\n{description}\n\n{about}{where}\n"


def build(directory: Path, url: str) -> None:
    """Build all distributions of the current commit into a directory."""
    tool = Path(sys.executable).parent / "uv"
    with tempfile.TemporaryDirectory() as work:
        archive = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, check=True, capture_output=True).stdout
        subprocess.run(["tar", "-x", "-C", work], input=archive, check=True)
        files = sorted(file for part in PARTS for file in Path(work).glob(f"{part}/pyproject.toml"))
        projects = {file: tomllib.loads(file.read_text())["project"] for file in files}
        names = {project["name"] for project in projects.values()}
        (base,) = {project["version"] for project in projects.values()}
        version = version_of_commit(base)
        for file, project in projects.items():
            file.write_text(released(file.read_text(), version, names, url))
            file.with_name("README.md").write_text(readme(project["name"], project["description"], url))
            shutil.copy(Path(work) / "LICENSE", file.parent)
        for file in files:
            command = [tool, "build", "--quiet", "--no-build-isolation", "--python", sys.executable]
            subprocess.run([*command, "--out-dir", directory.resolve(), file.parent], check=True)


def main() -> None:
    """Build into the directory that the arguments name."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--url", default="", help="the home page of the project")
    arguments = parser.parse_args()
    build(arguments.directory, arguments.url)


if __name__ == "__main__":
    main()
