"""A small synthetic trace with the columns of cluster-trace-gpu-v2023."""

import random
from pathlib import Path

NODES = "sn,cpu_milli,memory_mib,gpu,model"
PODS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time"
_KINDS = (
    (96_000, 393_216, 8, "G2"),
    (104_000, 524_288, 2, "T4"),
    (32_000, 131_072, 4, "V100M16"),
    (16_000, 122_880, 2, "P100"),
)
_PODS = (
    (3_152, 5_600, 1, 810, ""),
    (11_300, 49_152, 1, 1000, ""),
    (12_500, 57_344, 0, 0, ""),
    (11_908, 47_104, 1, 470, "G2|T4"),
    (8_000, 30_517, 1, 320, ""),
    (18_708, 64_512, 1, 1000, "V100M16|G2"),
    (64_000, 262_144, 8, 1000, ""),
    (8_000, 30_517, 2, 1000, ""),
    (4_000, 24_576, 1, 230, "T4"),
)


def write_trace(directory: Path, nodes: int = 12, pods: int = 200, seed: int = 1) -> Path:
    """Write nodes and the workload ``default``, and return the directory."""
    chance = random.Random(seed)
    rows = [f"node-{number:03},{','.join(map(str, chance.choice(_KINDS)))}" for number in range(nodes)]
    (directory / "openb_node_list_gpu_node.csv").write_text("\n".join([NODES, *rows]) + "\n")
    weights = range(len(_PODS), 0, -1)
    rows = []
    for number in range(pods):
        cpu, memory, cards, amount, models = chance.choices(_PODS, weights)[0]
        created = chance.randrange(100_000)
        ends = created + chance.randrange(60, 90_000)
        rows.append(f"pod-{number:04},{cpu},{memory},{cards},{amount},{models},LS,Running,{created},{ends},{created}")
    (directory / "openb_pod_list_default.csv").write_text("\n".join([PODS, *rows]) + "\n")
    return directory
