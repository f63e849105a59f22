"""The same seed gives the same history, byte for byte, in other processes and after other histories."""

import asyncio
import os
import sys

PROGRAM = """
import hashlib, sys
from deviceshare_lab.chaos.simulation import draw, play
found = {seed: hashlib.sha256(play(draw(seed)).text.encode()).hexdigest() for seed in sys.argv[1:]}
print(sorted(found.items()))
"""


async def output(hash_seed, *seeds):
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PROGRAM, *seeds,
        env={**os.environ, "PYTHONHASHSEED": hash_seed}, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    text, _ = await process.communicate()
    assert process.returncode == 0
    return text


async def test_processes_with_other_hash_seeds_play_the_same_histories():
    first, second = await asyncio.gather(output("1", "a", "b"), output("2", "b", "a"))
    assert first == second
