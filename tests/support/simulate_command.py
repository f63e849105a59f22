"""`simulate cluster` on a cluster of objects: as a directory of manifests, or as the snapshot of a system."""

import json
from pathlib import Path
from typing import Any

from deviceshare_cli.main import app
from support.card_objects import snapshot
from typer.testing import CliRunner, Result


def simulate_cluster(directory: Path, objects: list[dict[str, Any]], *arguments: str, live: bool) -> Result:
    """Run the command; ``live``: on a snapshot, else on manifests in a directory below the given one."""
    manifests = directory / "c"
    manifests.mkdir(exist_ok=True)
    (manifests / "all.json").write_text(json.dumps(objects))
    (directory / "s.json").write_bytes(snapshot(objects, [each for each in objects if each["kind"] == "Pod"]))
    source = ["--snapshot", str(directory / "s.json")] if live else [f"local:{manifests}"]
    return CliRunner().invoke(app, ["simulate", "cluster", *source, *arguments])


def run_of(result: Result) -> dict[str, Any]:
    """Return the only run that the command printed as JSON."""
    assert result.exit_code == 0, (result.output, result.exception)
    (found,) = json.loads(result.stdout)["runs"]
    return found
