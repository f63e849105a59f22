"""Real device plugins under the chart's services, on kubelet's device manager: containers have what annotations say.

The pods are those of examples/, which are those of Volcano's guides, and more like them. Scenes with ``gpu-memory`` are
the last ones, right after ``gpu-number``: for five minutes after the end of a plugin kubelet names its resource. With
``gpu-memory`` a node takes no ``gpu-number``. Then kubelet sets the resource to 0, also if the next plugin wrote it.
"""

import json

import pytest
from support.node import Object
from support.node_plugins import Card, Inside, Plugins
from support.node_scenes import (
    GTX,
    T4,
    Differences,
    asked,
    devices,
    differs,
    end_job,
    example,
    has_gpus_of,
    has_software_vgpus,
    limits,
    mixed,
    pod,
    run_job,
    run_scene,
)

pytestmark = pytest.mark.timeout(900)

MPS = [Card(f"GPU-6d70500{number}-aaaa-4bbb-8ccc-000000000000", 15360, "Tesla T4") for number in range(2)]
A100 = [Card("GPU-a1000000-aaaa-4bbb-8ccc-000000000000", 40960, "NVIDIA A100-SXM4-40GB")]
CHIPS = [f"0000310{number}-0000000A-0000000B-0000000C-0000000D" for number in range(4)]
LARGE_CHIPS = [f"0000910{number}-0000000A-0000000B-0000000C-0000000D" for number in range(4)]


def test_hami_core(plugins: Plugins) -> None:
    plugins.run_vgpu("hami-core", T4)
    requests = (
        limits(vgpu_number=1, vgpu_memory=1024),
        limits(vgpu_number=1, vgpu_memory=700, vgpu_cores=5),
        limits(vgpu_number=2, vgpu_memory=512),
        limits(vgpu_number=1, vgpu_memory_percentage=5),
    )
    # So few that two of the three cards are never full, ten containers each, when a pod needs two.
    run_scene(plugins, "hami-core", has_software_vgpus, [example("hami-pod"), *mixed(15, *requests)])


def test_mps(plugins: Plugins) -> None:
    plugins.run_vgpu("mps", MPS)
    mode = {"volcano.sh/vgpu-mode": "mps"}
    requests = limits(vgpu_number=1, vgpu_memory=1500), limits(vgpu_number=1, vgpu_memory=900, vgpu_cores=10)
    run_scene(plugins, "mps", has_software_vgpus, [example("mps-pod"), *mixed(11, *requests, annotations=mode)])


def test_mig(plugins: Plugins) -> None:
    plugins.run_vgpu("mig", A100)
    held: list[str] = []

    def compare(each: Object, position: int, seen: Inside) -> Differences:
        given = devices(each["metadata"]["annotations"]["volcano.sh/vgpu-ids-new"], position)
        visible = seen.given(("NVIDIA_VISIBLE", "CUDA"))
        if not given:
            return differs("variables", visible, {})
        ((device, *_),) = given
        uuid, group, place = device.rstrip("]").replace("[", "-").rsplit("-", 2)
        card, at, profile = plugins.mig_instances()[visible["NVIDIA_VISIBLE_DEVICES"]]
        held.append(visible["NVIDIA_VISIBLE_DEVICES"])
        sizes = profiles(plugins, A100[card].model, group)
        return [
            *differs("card and place", (A100[card].uuid, str(at)), (uuid, place)),
            *differs(f"profile of {group}", profile in sizes, True),
            *differs("room", sizes[profile] >= int(asked(each, position)["volcano.sh/vgpu-memory"]), True),
        ]

    mode = {"volcano.sh/vgpu-mode": "mig"}
    small = mixed(6, limits(vgpu_number=1, vgpu_memory=5000), annotations=mode)
    # The card is cut anew for larger instances.
    large = mixed(3, limits(vgpu_number=1, vgpu_memory=9000), annotations=mode)
    run_scene(plugins, "mig", compare, [example("mig-pod"), *small], large)
    assert len(held) == len(set(held))


def profiles(plugins: Plugins, model: str, group: str) -> dict[str, int]:
    """Return the memory of each profile of a group of the ConfigMap."""
    for entry in plugins.geometries["nvidia"]["knownMigGeometries"]:
        if any(known in model for known in entry["models"]):
            (found,) = [one for one in entry["allowedGeometries"] if one["group"] == group]
            return {one["name"]: one["memory"] for one in found["geometries"]}
    raise AssertionError(model)


def chip(word: str, memory: int = 0, cores: int = 0) -> Object:
    """Return resources of a chip, a whole one if no memory is given."""
    amounts = {"": 1, "-memory": memory, "-core": cores}
    return {"limits": {f"huawei.com/{word}{name}": str(amount) for name, amount in amounts.items() if amount}}


def test_ascend_templates(plugins: Plugins) -> None:
    plugins.run_ascend("310P3", CHIPS, shared=False)
    word = "Ascend310P"
    (entry,) = [one for one in plugins.geometries["vnpus"]["configs"] if one["commonWord"] == word]
    sizes = {template["name"]: template["memory"] for template in entry["templates"]}

    def compare(each: Object, position: int, seen: Inside) -> Differences:
        annotations = each["metadata"]["annotations"]
        given = devices(annotations[f"hami.io/{word}-devices-allocated"], position)
        visible = seen.given(("ASCEND", "NPU"))
        if not given:
            return differs("variables", visible, {})
        ((uuid, _, memory, _),) = given
        (cut,) = json.loads(annotations[f"huawei.com/{word}"])
        expected = {"ASCEND_VISIBLE_DEVICES": str(CHIPS.index(uuid))}
        found = []
        if requested := asked(each, position).get(f"huawei.com/{word}-memory"):
            expected["ASCEND_VNPU_SPECS"] = cut["temp"]
            fits = min(size for size in sizes.values() if size >= int(requested))
            found += [*differs("memory", memory, str(fits)), *differs("template", sizes[cut["temp"]], fits)]
        return [*found, *differs("variables", visible, expected)]

    requests = chip(word, 3000), chip(word, 6000), chip(word, 12000)
    pods = [example("ascend-hami-pod"), pod("whole", chip(word)), *mixed(6, *requests)]
    run_scene(plugins, "ascend-templates", compare, pods)


def test_ascend_hami_core(plugins: Plugins) -> None:
    word = "Ascend910B3"
    plugins.run_ascend("910B3", LARGE_CHIPS, shared=True)

    def compare(each: Object, position: int, seen: Inside) -> Differences:
        given = devices(each["metadata"]["annotations"][f"hami.io/{word}-devices-allocated"], position)
        visible = seen.given(("ASCEND", "NPU"))
        hooks = {to for to in seen.mounts if to.startswith(("/usr/local", "/etc/ld", "/etc/ascend", "/hami"))}
        if not given:
            return [*differs("variables", visible, {}), *differs("mounts", hooks, set())]
        ((uuid, _, memory, cores),) = given
        index = LARGE_CHIPS.index(uuid)
        expected = {
            "ASCEND_VISIBLE_DEVICES": str(index),
            "NPU_MEM_QUOTA": memory,
            "NPU_GLOBAL_SHM_PATH": f"/hami-shared-region/{index}_global_registry",
            "NPU_LOCAL_SHM_PATH": "/hami-vnpu-shmem/vnpu_local_shmem",
            **({"NPU_PRIORITY": cores} if cores != "0" else {}),
        }
        place = f"containers/{each['metadata']['uid']}_{each['spec']['containers'][position]['name']}"
        return [
            *differs("variables", visible, expected),
            *differs("memory", memory, asked(each, position)[f"huawei.com/{word}-memory"]),
            *differs("cores", cores, asked(each, position).get(f"huawei.com/{word}-core", "0")),
            *differs("driver", "/usr/local/bin/npu-smi" in hooks and "/etc/ld.so.preload" in hooks, True),
            *differs("own directory", seen.mounts.get("/hami-vnpu-shmem", "").endswith(place), True),
        ]

    requests = chip(word, 8000, 10), chip(word, 9000), chip(word, 4000, 5)
    run_scene(
        plugins, "ascend-hami-core", compare, mixed(12, *requests, annotations={"huawei.com/vnpu-mode": "hami-core"})
    )


def test_gpu_number(plugins: Plugins) -> None:
    plugins.run_gpu("number", GTX)
    waves = [example("gpu-number-pod"), pod("two", limits(gpu_number=2))], mixed(4, limits(gpu_number=1))
    run_scene(plugins, "gpu-number", has_gpus_of("volcano.sh/gpu-number"), *waves)


def test_gpu_memory(plugins: Plugins) -> None:
    plugins.run_gpu("share", GTX)
    requests = (limits(gpu_memory=600), limits(gpu_memory=4096), limits(gpu_memory=900))
    pods = [example("gpu-pod1"), example("gpu-pod2"), *mixed(16, *requests)]
    run_scene(plugins, "gpu-memory", has_gpus_of("volcano.sh/gpu-memory"), pods)


@pytest.mark.usefixtures("controllers")
def test_a_gang_shares_gpus_by_memory(plugins: Plugins) -> None:
    plugins.run_gpu("share", GTX)
    scene = run_job(plugins, "gpu-sharing-job", 2)
    scene.check(has_gpus_of("volcano.sh/gpu-memory"), 2)
    end_job(scene)
