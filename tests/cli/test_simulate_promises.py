"""`simulate cluster`: a queue is not held by a job that can never run."""

from pathlib import Path

import pytest
from support.card_objects import MEMORY
from support.promises import conf, never_and_later
from support.simulate_command import run_of, simulate_cluster
from support.simulated_clusters import placements

NEVER = {"larger than any card": (2 * MEMORY, {}), "refused": (6000, {"volcano.sh/vgpu-mode": "unknown"})}


@pytest.mark.parametrize(("memory", "annotations"), NEVER.values(), ids=NEVER)
@pytest.mark.parametrize("returns", [True, False])
def test_what_can_never_run_keeps_no_other_out(
    tmp_path: Path, memory: int, annotations: dict[str, str], returns: bool
) -> None:
    (tmp_path / "x.conf").write_text(conf(returns=returns))
    cluster = never_and_later(memory, annotations)
    run = run_of(simulate_cluster(tmp_path, cluster, "--conf", str(tmp_path / "x.conf"), "--json", live=False))
    placed = {name: node is not None for name, node in placements(run).items()}
    assert placed == {"never": False, "later": returns}
