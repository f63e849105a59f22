"""The floor: an argmax over the scores and the bookkeeping of one placement."""

import time

import numpy as np
from deviceshare.model import ContainerGrant, DeviceGrant

_MEMORY = 1024


def floor(nodes: int, devices: int, pods: int) -> float:
    """Return the seconds of ``pods`` placements: an argmax, a grant, a charge and a record of the holding each."""
    chance = np.random.default_rng(nodes)
    key = chance.random(nodes)
    used = np.zeros((nodes, devices), dtype=np.int64)
    holdings: dict[int, dict[str, ContainerGrant]] = {row: {} for row in range(nodes)}
    start = time.perf_counter()
    for number in range(pods):
        row = int(key.argmax())
        device = DeviceGrant("GPU", 0, _MEMORY, 0)
        grant = ContainerGrant("main", 0, "floor", (device,))
        used[row, 0] += _MEMORY
        key[row] -= 1.0
        holdings[row][f"pod-{number}"] = grant
    return time.perf_counter() - start
