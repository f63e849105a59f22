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

MANY_SHORT = """
import sys
sys.path.insert(0, sys.argv[1])
from support.plain_kernels import install
install()
from support.builders import MEMORY, NUMBER, ask, container, node
from support.mig import A100_40, mig_card, mig_cluster
nodes = [node(f"n{at}", [mig_card(0, A100_40, node=f"n{at}")], **{MEMORY: 3000}) for at in range(256)]
cluster = mig_cluster(*nodes)
print([cluster.place(ask(container(**{NUMBER: 1, MEMORY: memory}))) is not None for memory in (1000, 4000)])
"""


@pytest.mark.timeout(400 + CLUSTERS)
def test_it_decides_as_an_allocator_that_remembers_nothing_and_sees_one_node_at_a_time() -> None:
    placed = sum(each is not None for seed in range(CLUSTERS) for each in decisions(seed, plain=True))
    assert placed > CLUSTERS, "most pods find a place in such clusters"


def uncompiled(program: str, *arguments: str) -> str:
    """Return what a program prints without warnings, which numpy has for overflows."""
    command = [sys.executable, "-W", "error::RuntimeWarning", "-c", program, str(Path(__file__).parents[1]), *arguments]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout.strip()


def test_kernels_that_are_not_compiled_decide_the_same() -> None:
    count = 25
    assert uncompiled(UNCOMPILED, str(count)) == str([list(decisions(seed, plain=False)) for seed in range(count)])


def test_kernels_that_are_not_compiled_count_more_short_rows_than_a_byte_has_values() -> None:
    assert uncompiled(MANY_SHORT) == "[True, False]"
