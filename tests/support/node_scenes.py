"""Scenes on a real node with device plugins: the chart that places pods, the pods, and what they have compared."""

import re
from collections.abc import Callable
from typing import Any

import yaml
from support import charts, node, node_chart, node_plugins
from support.node import ROOT, Object, RealNode
from support.node_plugins import Card, Inside, Plugins

Differences = list[str]
Compare = Callable[[Object, int, Inside], Differences]
"""Compares the container at a position of a pod with what it has inside."""

T4 = [Card(f"GPU-7400000{number}-aaaa-4bbb-8ccc-000000000000", 15360, "Tesla T4") for number in range(3)]
GTX = [Card(f"GPU-9a00000{number}-aaaa-4bbb-8ccc-000000000000", 11178, "GeForce GTX 1080 Ti") for number in range(4)]
_CONFIGURATION = """actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
- plugins:
  - name: predicates
  - name: deviceshare
    arguments:
      deviceshare.GPUSharingEnable: true
      deviceshare.GPUNumberEnable: true
      deviceshare.VGPUEnable: true
      deviceshare.AscendHAMiVNPUEnable: true
      deviceshare.AscendMindClusterVNPUEnable: true
      deviceshare.SchedulePolicy: binpack
configurations:
- name: init-params
  arguments: {"grace-over-time":"900","presetVirtualDevice":"false"}
"""
MINDCLUSTER = "mindx-dl"
"""The namespace in which MindCluster reports the health of chips."""
_LABEL = "deviceshare.io/scene"
_RUNNING = 300.0
"""Seconds in which the pods of a wave run; without other load it takes 40."""
_OPTIONS = (
    "trusted.volcanoDevicePlugin=true",
    "trusted.hamiAscend=true",
    "trusted.volcano=true",
    f"configurationNamespaces={{{MINDCLUSTER}}}",
    # Two cores, for the containers of the scenes as well.
    *(f"{name}.replicas=1" for name in ("inventory", "placement", "binder")),
)


def deploy(cluster: RealNode) -> None:
    """Install the chart for all families, with the accounts of the plugins trusted."""
    cluster.create_namespace(MINDCLUSTER)
    node_chart.install(cluster, charts.CHART, 0, *_OPTIONS, configuration=_CONFIGURATION)


def limits(**amounts: int) -> Object:
    """Return resources, written ``vgpu_number=1``."""
    names = {name: f"volcano.sh/{name.replace('_', '-')}" for name in amounts}
    return {"limits": {names[name]: str(amount) for name, amount in amounts.items()}}


def pod(name: str, *containers: Object, annotations: Object | None = None) -> Object:
    """Return a pod with containers of these resources."""
    one = {"image": node.PAUSE, "imagePullPolicy": "Never"}
    spec = [{"name": f"c{number}", **one, "resources": each} for number, each in enumerate(containers)]
    made = node.pod(name, "", schedulerName="volcano", containers=spec)
    made["metadata"]["annotations"] = annotations or {}
    return made


def example(name: str) -> Object:
    """Return a pod or Job of examples/; a tag ``latest`` would be pulled."""
    obj: Object = yaml.safe_load((ROOT / "examples" / "workloads" / f"{name}.yaml").read_text())
    for container in containers_of(obj):
        container["imagePullPolicy"] = "IfNotPresent"
    return obj


def containers_of(obj: Object) -> list[Object]:
    """Return the containers of a pod, or of the templates of a Job of Volcano."""
    specs = [task["template"]["spec"] for task in obj["spec"]["tasks"]] if obj["kind"] == "Job" else [obj["spec"]]
    return [container for spec in specs for container in spec["containers"]]


def delete_pods(cluster: RealNode) -> None:
    """Delete the pods of all scenes, and wait until they are gone."""
    for namespace in cluster.get("namespaces", "--selector", _LABEL)["items"]:
        cluster.kubectl("delete", "pods", "--all", "--namespace", namespace["metadata"]["name"], "--now")


class Scene:
    """A namespace with pods that run on devices of a plugin."""

    def __init__(self, plugins: Plugins, namespace: str) -> None:
        self.plugins, self.cluster, self.namespace = plugins, plugins.cluster, namespace
        self.cluster.create_namespace(namespace)
        self.cluster.kubectl("label", "namespace", namespace, f"{_LABEL}=")

    def apply(self, *objects: Object) -> None:
        """Create pods or Jobs; their images become names of the one that sleeps."""
        for made in objects:
            made["metadata"]["namespace"] = self.namespace
            for container in containers_of(made):
                self.cluster.name_image(container["image"])
        self.cluster.apply(*objects)

    def start(self, *pods: Object) -> None:
        """Create pods and wait until all run."""
        self.apply(*pods)
        try:
            names = {made["metadata"]["name"] for made in pods}
            self.cluster.wait_for_pods(self.namespace, "Running", names, _RUNNING)
        except TimeoutError:
            raise AssertionError(self.not_running()) from None

    def pods(self) -> list[Object]:
        found: list[Object] = self.cluster.get("pods", "--namespace", self.namespace)["items"]
        return found

    def not_running(self) -> list[tuple[str, Object]]:
        """Return the pods that do not run, with their statuses."""
        statuses = [(each["metadata"]["name"], each["status"]) for each in self.pods()]
        return [one for one in statuses if one[1].get("phase") != "Running"]

    def check(self, compare: Compare, count: int) -> None:
        """Compare each container of so many pods with its pod's annotations."""
        pods = self.pods()
        assert len(pods) == count
        seen = node_plugins.inside(pods)
        differences = []
        for each in pods:
            name = each["metadata"]["name"]
            for position, container in enumerate(each["spec"]["containers"]):
                found = compare(each, position, seen[name, container["name"]])
                differences += [f"{name}/{container['name']}: {one}" for one in found]
        assert differences == []

    def delete_failed(self) -> int:
        """Delete the pods that failed, and return how many."""
        failed = [each["metadata"]["name"] for each in self.pods() if each["status"]["phase"] == "Failed"]
        if failed:
            self.cluster.kubectl("delete", "pods", *failed, "--namespace", self.namespace, "--now")
        return len(failed)


def differs(what: str, found: Any, expected: Any) -> Differences:
    return [] if found == expected else [f"{what}: {found!r}, not {expected!r}"]


def devices(text: str, position: int) -> list[list[str]]:
    """Return the fields of the devices of a container, from an annotation of vGPUs or vNPUs."""
    slots = text.split(";")
    return [device.split(",") for device in slots[position].split(":") if device] if position < len(slots) else []


def asked(each: Object, position: int) -> dict[str, str]:
    """Return the limits of a container; the API server writes 3000 as ``3k``."""
    limits = each["spec"]["containers"][position].get("resources", {}).get("limits", {})
    return {name: re.sub("k$", "000", amount) for name, amount in limits.items()}


def has_software_vgpus(each: Object, position: int, seen: Inside) -> Differences:
    """HAMi-core and MPS: the variables and mounts that HAMi-core's library reads."""
    given = devices(each["metadata"]["annotations"]["volcano.sh/vgpu-ids-new"], position)
    requested = asked(each, position)
    found = differs("vGPUs", len(given), int(requested.get("volcano.sh/vgpu-number", 0)))
    place = f"vgpu/containers/{each['metadata']['uid']}_{each['spec']['containers'][position]['name']}"
    hooks = {to for to in seen.mounts if to.startswith(("/tmp", "/usr/local", "/etc/ld"))}
    if not given:
        return [*found, *differs("variables", seen.given(("NVIDIA", "CUDA")), {}), *differs("mounts", hooks, set())]
    expected = {
        "NVIDIA_VISIBLE_DEVICES": ",".join(device[0] for device in given),
        "CUDA_DEVICE_SM_LIMIT": given[0][3],
        **{f"CUDA_DEVICE_MEMORY_LIMIT_{number}": f"{device[2]}m" for number, device in enumerate(given)},
    }
    found += differs(
        "variables", seen.given(("NVIDIA_VISIBLE", "CUDA_DEVICE_SM", "CUDA_DEVICE_MEMORY_LIMIT")), expected
    )
    if memory := requested.get("volcano.sh/vgpu-memory"):
        found += differs("memory", {device[2] for device in given}, {memory})
    found += differs("cores", given[0][3], requested.get("volcano.sh/vgpu-cores", "0"))
    found += differs(
        "mounts", hooks, {"/tmp/vgpu", "/tmp/vgpulock", "/usr/local/vgpu/libvgpu.so", "/etc/ld.so.preload"}
    )
    if not seen.mounts.get("/tmp/vgpu", "").endswith(place):
        found.append(f"/tmp/vgpu is {seen.mounts.get('/tmp/vgpu')}, not {place}")
    return found


def has_gpus_of(resource: str) -> Compare:
    """Volcano's GPU plugin: the cards of the pod's annotation, and how much of the resource."""

    def compare(each: Object, position: int, seen: Inside) -> Differences:
        amount = asked(each, position).get(resource)
        expected = {
            "NVIDIA_VISIBLE_DEVICES": each["metadata"]["annotations"]["volcano.sh/gpu-index"],
            "VOLCANO_GPU_ALLOCATED": amount,
            "VOLCANO_GPU_MEMORY_TOTAL": str(GTX[0].mib),
        }
        return [
            *differs("variables", seen.given(("NVIDIA", "VOLCANO")), expected if amount else {}),
            *differs("assigned", each["metadata"]["annotations"].get("volcano.sh/gpu-assigned"), "true"),
        ]

    return compare


def run_scene(plugins: Plugins, namespace: str, compare: Compare, *waves: list[Object]) -> None:
    """Run pods, compare what they have, and delete them, wave by wave."""
    scene = Scene(plugins, namespace)
    for pods in waves:
        scene.start(*pods)
        scene.check(compare, len(pods))
        delete_pods(plugins.cluster)


def mixed(count: int, *requests: Object, prefix: str = "p", **more: Any) -> list[Object]:
    """Return pods with these requests in turn, in the first, the second or the only container."""
    places: list[Callable[[Object], list[Object]]] = [lambda one: [one], lambda one: [{}, one], lambda one: [one, {}]]
    return [
        pod(f"{prefix}{number}", *places[number % len(places)](requests[number % len(requests)]), **more)
        for number in range(count)
    ]


def running(scene: Scene) -> list[Object]:
    """Return the pods that run."""
    return [pod for pod in scene.pods() if pod["status"].get("phase") == "Running"]


def run_job(plugins: Plugins, name: str, count: int, namespace: str = "") -> Scene:
    """Run a Job of examples/ and wait until its pods run."""
    scene = Scene(plugins, namespace or f"job-{name}")
    scene.apply(example(name))
    try:
        scene.cluster.wait(f"{count} pods of the Job run", lambda: len(running(scene)) == count, 120)
    except TimeoutError:
        raise AssertionError(scene.not_running()) from None
    assert {owner["kind"] for pod in scene.pods() for owner in pod["metadata"]["ownerReferences"]} == {"Job"}
    return scene


def end_job(scene: Scene) -> None:
    """Delete a Job and wait until its pods are gone."""
    scene.cluster.kubectl("delete", "jobs.batch.volcano.sh", "--all", "--namespace", scene.namespace)

    def deleted() -> bool:
        return all("deletionTimestamp" in pod["metadata"] for pod in scene.pods())

    scene.cluster.wait("the pods of the Job are deleted", deleted, 120)
    node_plugins.end_processes(scene.pods())
    scene.cluster.wait("the pods of the Job are gone", lambda: not scene.pods(), 120)
