"""``deviceshare lab chaos`` with kinds of faults that a seed chooses, on a bus with users.

``DEVICESHARE_CHAOS_SEEDS``: the seeds, comma-separated; `.ci/run` sets others for each change.
"""

import os
import random
import re
from pathlib import Path

import pytest
from deviceshare_lab.chaos.real.faults import FAULTS
from support.chaos import REPLICAS, begun, left_over, start

SEEDS = os.environ.get("DEVICESHARE_CHAOS_SEEDS", "3,77123").split(",")
STORE = ("wipe", "roll-back", "roll-back-stream", "roll-back-apart", "delete-stream", "empty-stream")
"""Faults that lose data of the bus."""
COUNTS = 3, 8
"""Faults of a run: of the store, and others."""


def chosen(seed: str) -> list[str]:
    """Return the kinds of faults of a run."""
    chance = random.Random(seed)
    others = sorted(FAULTS.keys() - set(STORE))
    return [*chance.sample(STORE, COUNTS[0]), *chance.sample(others, COUNTS[1])]


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("seed", "preempts"), [*((seed, False) for seed in SEEDS), (SEEDS[0], True)])
def test_faults_by_any_seed_break_no_rule_of_a_bus_with_users(tmp_path: Path, seed: str, preempts: bool) -> None:
    kinds = chosen(seed)
    options = ["--faults", str(len(kinds)), "--pace", "1.5", "--replicas", REPLICAS, "--kinds", ",".join(kinds)]
    running = start(tmp_path, "--seed", seed, *options, *(["--preempt"] if preempts else []))
    said, _ = running.communicate()
    assert running.returncode == 0, said
    assert re.match(rf"{sum(COUNTS)} faults, 0 violations \(seed {seed}, \d+ s\)$", said.splitlines()[-1]), said
    assert sorted(begun(said)) == sorted(kinds), said
    assert "bus with users" in said
    assert bool(re.search(r"LEDGER let [1-9]\d* pods go", said)) is preempts, said
    assert left_over(tmp_path) == []
