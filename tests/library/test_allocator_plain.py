"""The fast path decides as the plain one: nothing remembered, one node at a time; kernels compiled or not.

``CLUSTERS`` is how many clusters are made up (200): ``CLUSTERS=10000 .venv/bin/pytest`` with this file.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.random_clusters import decisions

CLUSTERS = int(os.environ.get("CLUSTERS", "200"))
UNCOMPILED = """
import sys
sys.path.insert(0, sys.argv[1])
from support.plain_kernels import install
install()
from support.random_clusters import decisions
from deviceshare.kernels import node_index
assert node_index.__file__.endswith(".py"), node_index.__file__
print([list(decisions(seed, plain=False)) for seed in range(int(sys.argv[2]))])
"""


@pytest.mark.timeout(400 + CLUSTERS)
def test_it_decides_as_an_allocator_that_remembers_nothing_and_sees_one_node_at_a_time() -> None:
    placed = sum(each is not None for seed in range(CLUSTERS) for each in decisions(seed, plain=True))
    assert placed > CLUSTERS, "most pods find a place in such clusters"


def test_kernels_that_are_not_compiled_decide_the_same() -> None:
    count = 25
    tests = Path(__file__).parents[1]
    run = subprocess.run(
        [sys.executable, "-c", UNCOMPILED, str(tests), str(count)], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip() == str([list(decisions(seed, plain=False)) for seed in range(count)])
